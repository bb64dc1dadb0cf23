"""What each part keeps to, read out of the source: one owner for each thing that must not be done twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import stratalog

SOURCE = Path(stratalog.__file__).parent

# What a descriptor is used for. `signals.py` has a pipe of its own, and only writes to it and closes it.
DESCRIPTOR_CALLS = {
    "os": {"open", "fdopen", "pread", "preadv", "pwrite", "pwritev", "lseek", "fsync", "fdatasync", "fstat"}
    | {"ftruncate", "fchown", "fchmod", "sendfile", "posix_fadvise"},
}
# What looks at files or changes them by name. The packages that know logs leave all of it to a disk.
PATH_CALLS = {
    "os": {"stat", "lstat", "scandir", "listdir", "walk", "statvfs", "access", "mkdir", "makedirs", "rmdir"}
    | {"rename", "replace", "unlink", "remove", "link", "symlink", "truncate", "utime", "chmod", "chown"},
    "shutil": {"copy", "copyfile", "copytree", "move", "rmtree", "disk_usage"},
}
CHANGES = {"replace", "delete", "rename", "write", "write_at", "create", "truncate", "unlink", "touch"} | {
    "write_bytes",
    "write_text",
    "remove",
}
BENCH = "cli/startup/"  # the rival of `stratalog bench startup` makes directories of its own
INTERNAL_TOPIC = re.compile(
    r"__(consumer_offsets|transaction_state|share_group_state|cluster_metadata)(-\d+)?"
)
# These ask for the last batch of a segment, or of what they have copied or cut, and not where a log ends.
# Recovery decides where one will end, by the scans of all its segments.
LAST_BATCH_OF_SEGMENTS = {
    "jobs/reading/split.py",  # is a segment in the middle whole?
    "log/cleaning/split.py",
    "log/reading.py",  # the same as the first
    "log/recovery/inventory.py",
    "log/recovery/salvage.py",
    "log/recovery/survey.py",
    "manager/moving.py",
}
KNOW_LOGS = ("segment", "log", "directory", "manager", "operations", "jobs")
# These can do both, and are given the reading half where they only read.
READ_AND_CHANGE = {
    "log/checkpoint_file.py",
    "log/cleaning/clean.py",
    "log/epochs.py",
    "log/partition_metadata.py",
    "log/producers/snapshot_files.py",
    "segment/index_file.py",
    "segment/segment.py",
    "segment/segment_files.py",
}


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """Each module's path below the package, and its tree; all of them where no package is named."""
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if not packages or name.split("/")[0] in packages:
            yield name, ast.parse(file.read_text("utf-8"))


def calls(tree: ast.AST, wanted: dict[str, set[str]]) -> Iterator[str]:
    """The line and name of each call of one of these functions, and of `open` itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id="open"):
                yield f"{node.lineno} open"
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in wanted.get(module, ()):
                yield f"{node.lineno} {module}.{name}"


def imported(tree: ast.AST) -> Iterator[str]:
    """The full name of all that is imported, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def takes_locks(tree: ast.AST) -> Iterator[int]:
    """The lines in which a directory's lock is made, or taken as only such a lock is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if any(alias.name == "DirectoryLock" and alias.asname for alias in node.names):
                yield node.lineno
        elif isinstance(node, ast.Call):
            made = name_of(node.func).lstrip("_") in ("DirectoryLock", "make_lock")
            if made or name_of(node.func) == "acquire_after_trial":
                yield node.lineno


def changes_clean_shutdown_files(tree: ast.AST) -> Iterator[int]:
    """The lines in which a file is written, renamed or deleted by a name that comes from that of the file."""
    names = {"CLEAN_SHUTDOWN", "CleanShutdownFile", "format_clean_shutdown"}
    for node in ast.walk(tree):  # what is made of one of these goes by other names
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and names_it(node.value, names):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {name_of(found) for target in targets for found in ast.walk(target)} - {"self", ""}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            parts = [node.func.value, *node.args, *(keyword.value for keyword in node.keywords)]
            if any(names_it(part, names) for part in parts):
                yield node.lineno


def defines_internal_topics(tree: ast.AST) -> Iterator[str]:
    """Where an internal topic is spelt out, or a set of them gets a name; not what only speaks of one."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if INTERNAL_TOPIC.fullmatch(text):
                yield f"{node.lineno} {text}"
            case ast.Name(id=name, ctx=ast.Store()) if "INTERNAL_TOPICS" in name:
                yield f"{node.lineno} {name}"
            case ast.FunctionDef(name="is_internal"):
                yield f"{node.lineno} is_internal"


def finds_an_end(tree: ast.AST) -> Iterator[str]:
    """Where the last batch of something is looked for, a LogEnd is made, or None stands for "was closed"."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="LAST") | ast.Attribute(attr="LAST"):
                yield f"{node.lineno} LAST"
            case ast.Subscript(value=whose, slice=ast.Constant(value="last_offset")) if is_last_row(whose):
                yield f"{node.lineno} last_offset"
            case ast.Call(func=ast.Name(id="LogEnd")):
                yield f"{node.lineno} LogEnd"
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()]) if name_of(left) == "recovery_point":
                yield f"{node.lineno} recovery_point"


def is_last_row(node: ast.AST) -> bool:
    """A row called `last`, or the one at -1."""
    match node:
        case ast.Name(id=name):
            return name.startswith("last")
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub())):
            return True
    return False


def names_it(tree: ast.AST, names: set[str]) -> bool:
    return any(
        name_of(node) in names or (isinstance(node, ast.Constant) and node.value == ".kafka_cleanshutdown")
        for node in ast.walk(tree)
    )


def name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def calling(name: str) -> set[str]:
    """The modules that call this."""
    return {
        module
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and name_of(node.func) == name
    }


def test_one_place_takes_the_locks_of_log_directories() -> None:
    taking = {name for name, tree in modules() if any(takes_locks(tree))}

    assert taking == {"directory/locking.py"}
    assert calling("lock_log_directory") == {
        "directory/log_directory.py",  # of a session
        "directory/recovery/directory_recovery.py",
    }


def test_one_place_writes_and_deletes_clean_shutdown_files() -> None:
    changing = {name for name, tree in modules() if any(changes_clean_shutdown_files(tree))}

    assert changing == {"directory/clean_state.py"}
    assert {name for name in calling("CleanState") if not name.startswith(BENCH)} == {
        "directory/log_directory.py",  # of a session
        "directory/recovery/directory_recovery.py",
        "directory/home.py",  # of a log by itself
        "directory/lone_files.py",
    }


def test_one_place_says_what_an_internal_topic_is() -> None:
    wrong = [
        f"{name}:{found}"
        for name, tree in modules()
        if name != "records/internal_topics.py"
        for found in defines_internal_topics(tree)
    ]

    assert wrong == []


def test_one_place_answers_where_a_log_ends() -> None:
    found = {
        name
        for name, tree in modules("log", "directory", "manager", "operations", "jobs", "spark", "cli")
        if [*finds_an_end(tree)]
    }

    assert found - LAST_BATCH_OF_SEGMENTS == {"log/log_end.py"}
    assert found >= LAST_BATCH_OF_SEGMENTS  # none is excused that needs it no more


def test_a_second_definition_of_internal_topics_is_seen() -> None:
    assert [*defines_internal_topics(ast.parse('X = ("__consumer_offsets",)'))] == ["1 __consumer_offsets"]
    assert [*defines_internal_topics(ast.parse('if name == "__cluster_metadata-0": pass'))]
    assert [*defines_internal_topics(ast.parse("MY_INTERNAL_TOPICS = theirs - {'a'}"))]
    assert [*defines_internal_topics(ast.parse("def is_internal(topic): return topic[:2] == '__'"))]
    assert not [*defines_internal_topics(ast.parse('"""About __consumer_offsets."""\nis_internal("a")'))]


def test_a_second_answer_to_where_a_log_ends_is_seen() -> None:
    sources = [
        "end = find_batch(read_into, 0, size, LAST, 0)",
        "end = find_batch(read_into, 0, size, kernel.LAST, 0)",
        "end = int(part.walk.headers[-1]['last_offset']) + 1",
        "last = rows[n]\nend = last['last_offset'] + 1",
        "end = LogEnd(offset=5)",
        "was_closed = recovery_point is None",
        "was_closed = found.recovery_point is None",
    ]

    for source in sources:
        assert len([*finds_an_end(ast.parse(source))]) == 1, source
    assert not [*finds_an_end(ast.parse("first['last_offset']; end.offset; point == 0; recovery_point > 3"))]


def test_a_second_place_that_takes_a_lock_is_seen() -> None:
    sources = [
        "with DirectoryLock(path):\n    pass",
        "lock = self._make_lock(path)\nlock.acquire()",
        "lock.acquire_after_trial()",
        "from stratalog.files.lock import DirectoryLock as Lock",
    ]

    assert all(any(takes_locks(ast.parse(source))) for source in sources)
    default = "def open(make_lock=DirectoryLock):\n    return Session(make_lock=make_lock)"
    assert not any(takes_locks(ast.parse(default)))


def test_a_second_place_that_writes_or_deletes_a_clean_shutdown_file_is_seen() -> None:
    sources = [
        "disk.replace(f'{directory}/{CLEAN_SHUTDOWN}', b'')",
        "(log_dir / '.kafka_cleanshutdown').unlink()",
        "self._mark = CleanShutdownFile(disk, directory)\nself._disk.delete(self._mark.path)",
        "data = format_clean_shutdown(5)\ndisk.replace(path, data)",
        "path = directory / names.CLEAN_SHUTDOWN\npath.write_bytes(b'')",
    ]

    assert all(any(changes_clean_shutdown_files(ast.parse(source))) for source in sources)
    reading = "file = CleanShutdownFile(disk, directory)\nif file.exists():\n    epoch = file.read()"
    assert not any(changes_clean_shutdown_files(ast.parse(reading)))


def test_no_descriptor_leaves_files() -> None:
    wrong = []
    for name, tree in modules():
        if name.startswith("files/"):
            continue
        wrong += [f"{name}:{found}" for found in calls(tree, DESCRIPTOR_CALLS)]
        wrong += [
            f"{name}:{node.lineno} .{node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr in ("descriptor", "fileno")
        ]
        wrong += [f"{name} imports {found}" for found in imported(tree) if "files.descriptors" in found]

    assert wrong == []


def test_only_files_looks_into_the_id_of_a_file() -> None:
    numbers = {"inode", "st_ino", "st_dev"}
    wrong = [
        f"{name}:{node.lineno} .{node.attr}"
        for name, tree in modules()
        if not name.startswith("files/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in numbers and not is_noted_inode(node)
    ]

    assert wrong == []


def is_noted_inode(node: ast.Attribute) -> bool:
    """`.inode` of what was written down: a manifest's line, a copy in a work directory."""
    return isinstance(node.value, ast.Name) and node.value.id in ("kept", "found")


def test_packages_that_know_logs_reach_the_disk_through_files_only() -> None:
    wrong = [f"{name}:{found}" for name, tree in modules(*KNOW_LOGS) for found in calls(tree, PATH_CALLS)]

    assert wrong == []


def test_only_parts_that_read_and_change_ask_a_reader_for_the_other_half() -> None:
    asking = {name for name, tree in modules() if "stratalog.files.disk.changing" in imported(tree)}

    assert asking == READ_AND_CHANGE


def test_the_reader_of_calls_sees_each_form() -> None:
    source = "import os\nwith open('x') as file:\n    os.fsync(file)\nos.path.join('a')\nself.open('x')\n"

    assert [*calls(ast.parse(source), DESCRIPTOR_CALLS)] == ["2 open", "3 os.fsync"]
