"""What each part keeps to, read out of the source: one owner for each thing that must not be done twice.

Names are resolved (`source_names.py`): an alias, a module's attribute or a `getattr` does not get around the
rules. Each check has a test beside it that shows which spellings it sees.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_names import texts
from tests.source_rules import last_of, modules, name_of, names_any, names_in, uses
from tests.source_trees import nodes

ROOT = Path(__file__).parent.parent
# Functions that use a descriptor. `signals.py` has its own pipe, and only writes to it and closes it.
DESCRIPTOR_CALLS = (
    {"open", "io.open", "io.FileIO"}
    | {f"os.{name}" for name in ("open", "fdopen", "pread", "preadv", "pwrite", "pwritev", "lseek", "fsync")}
    | {f"os.{name}" for name in ("fdatasync", "fstat", "ftruncate", "fchown", "fchmod", "sendfile")}
    | {"os.posix_fadvise"}
)
# What looks at files or changes them by name. The packages that know logs leave all of it to a disk.
PATH_CALLS = (
    {f"os.{name}" for name in ("stat", "lstat", "scandir", "listdir", "walk", "statvfs", "access", "mkdir")}
    | {f"os.{name}" for name in ("makedirs", "rmdir", "rename", "replace", "unlink", "remove", "link")}
    | {f"os.{name}" for name in ("symlink", "truncate", "utime", "chmod", "chown")}
    | {f"os.path.{name}" for name in ("exists", "lexists", "isfile", "isdir", "islink")}
    | {f"os.path.{name}" for name in ("getsize", "getmtime", "samefile")}
    | {f"shutil.{name}" for name in ("copy", "copyfile", "copytree", "move", "rmtree", "disk_usage")}
)
# The same as methods of a path, which have different names there.
PATH_METHODS = {
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "iterdir",
    "rglob",
    "glob",
    "unlink",
} | {
    *(
        "touch",
        "exists",
        "stat",
        "is_file",
        "is_dir",
        "open",
        "mkdir",
        "rmdir",
        "rename",
        "replace",
        "resolve",
    ),
}
# These have paths that could look at files, and do not. All others have a `PurePath`, or text.
CONCRETE_PATHS = {"directory/home.py", "log/api/partition_log.py"}
MAPS_AS_KAFKA = "cli/startup/mapped_index.py"  # to measure what that costs
BENCH = "cli/startup/"  # the rival of `stratalog bench startup` creates its own directories
# Any start of such a name, or their common prefix. A string with a blank is only a text about one.
INTERNAL_TOPIC = re.compile(r"__(consumer|transaction_s|share_g|cluster_m)\S*|__")
# These ask for the last batch of a segment, or of what they have copied or cut, and not where a log ends.
# Recovery decides where one will end, by the scans of all its segments.
LAST_BATCH_OF_SEGMENTS = {
    "jobs/reading/split.py",  # is a segment in the middle whole?
    "log/cleaning/erase.py",  # of a run of batches, as the next two
    "log/cleaning/erase_filter.py",
    "log/cleaning/filter.py",
    "log/cleaning/split.py",
    "log/reading.py",  # the same as the first
    "log/recovery/inventory.py",
    "log/recovery/salvage.py",
    "log/recovery/survey.py",
}
KNOW_LOGS = ("segment", "log", "directory", "manager", "operations", "jobs")
# These can do both, and are given the reading half where they only read.
READ_AND_CHANGE = {
    "log/checkpoint_file.py",
    "log/cleaning/clean.py",
    "log/cleaning/distributed.py",
    "log/epochs.py",
    "log/partition_metadata.py",
    "log/producers/snapshot_files.py",
    "segment/index_file.py",
}


def path_methods(tree: ast.AST) -> Iterator[str]:
    """The line and name of each method of a `Path`, or of a value derived from one, that accesses a file."""
    if not has_paths(tree):
        return
    paths = {"Path", "pathlib"}
    for node in nodes(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if names_any(
                value.func if isinstance(value, ast.Call) else value, paths
            ):
                paths.add(name)
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if names_any(annotation, paths):
                paths.add(name)
            case ast.Attribute(value=whose, attr=name) if name in PATH_METHODS and names_any(whose, paths):
                yield f"{node.lineno} .{name}"


def has_paths(tree: ast.AST) -> bool:
    return any(uses(tree, {"pathlib", "pathlib.Path", "pathlib.PosixPath"}))


def defines_internal_topics(tree: ast.AST) -> Iterator[str]:
    """Where an internal topic is written out, or a set of them gets a name; texts about one do not count."""
    for text, line in texts(tree):
        if INTERNAL_TOPIC.fullmatch(text):
            yield f"{line} {text}"
    for node in nodes(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if "INTERNAL_TOPIC" in name.upper():
                yield f"{node.lineno} {name}"
            case ast.Name(id="is_internal", ctx=ast.Store()):
                yield f"{node.lineno} is_internal"
            case ast.FunctionDef(name=name) if name.lstrip("_").startswith("is_internal"):
                yield f"{node.lineno} {name}"


def finds_an_end(tree: ast.AST) -> Iterator[str]:
    """Where code searches for the last batch, creates a LogEnd, or uses None for "was closed"."""
    names = names_in(tree)
    for node in nodes(tree):
        match node:
            case ast.ImportFrom() if any(each.name == "LAST" and each.asname for each in node.names):
                yield f"{node.lineno} LAST"
            case ast.Name() | ast.Attribute() | ast.Call() if last_of(names.full_name(node)) == "LAST":
                yield f"{node.lineno} LAST"
            case ast.Subscript(value=whose, slice=ast.Constant(value="last_offset")) if is_last_row(whose):
                yield f"{node.lineno} last_offset"
            case ast.Subscript(value=ast.Subscript(slice=ast.Constant(value="last_offset")), slice=row) if (
                is_from_the_end(row)
            ):
                yield f"{node.lineno} last_offset"
            case ast.Call(func=called) if last_of(names.full_name(called)) == "LogEnd":
                yield f"{node.lineno} LogEnd"
            case ast.Compare(left=left, comparators=[right]):
                if "recovery_point" in (name_of(left), name_of(right)) and is_none(left, right):
                    yield f"{node.lineno} recovery_point"
            case ast.UnaryOp(op=ast.Not(), operand=whose) if name_of(whose) == "recovery_point":
                yield f"{node.lineno} recovery_point"


def is_none(*nodes: ast.AST) -> bool:
    return any(isinstance(node, ast.Constant) and node.value is None for node in nodes)


def is_last_row(node: ast.AST) -> bool:
    """A row called `last`, or the one at -1."""
    match node:
        case ast.Name(id=name):
            return name.startswith("last")
        case ast.Subscript(slice=row):
            return is_from_the_end(row)
    return False


def is_from_the_end(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def test_mypy_checks_what_ruff_checks() -> None:
    (line,) = re.findall(r"(?m)^CHECKED := (.+)$", (ROOT / "Makefile").read_text())

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"] == line.split()


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

    assert found - LAST_BATCH_OF_SEGMENTS == {"log/log_end.py", "log/broker_end.py"}
    assert found >= LAST_BATCH_OF_SEGMENTS  # no exception that is no longer needed


@pytest.mark.parametrize(
    "source",
    [
        'X = ("__consumer_offsets",)',
        'if name == "__cluster_metadata-0": pass',
        'if name == "__cluster" + "_metadata": pass',
        'name = f"__transaction_state-{number}"',
        'if topic.startswith("__"): pass',
        "MY_INTERNAL_TOPICS = theirs - {'a'}",
        "def is_internal(topic): return topic[:2] == prefix",
        "is_internal = lambda topic: topic in those",
        "def _is_internal_topic(topic): return topic in those",
    ],
)
def test_a_second_definition_of_internal_topics_is_seen(source: str) -> None:
    assert [*defines_internal_topics(ast.parse(source))]


def test_what_only_speaks_of_an_internal_topic_is_none() -> None:
    source = '"""About __consumer_offsets."""\nis_internal("a")\nraise X(f"{a}: no __cluster_metadata here")'

    assert not [*defines_internal_topics(ast.parse(source))]


@pytest.mark.parametrize(
    "source",
    [
        "end = find_batch(read_into, 0, size, LAST, 0)",
        "end = find_batch(read_into, 0, size, kernel.LAST, 0)",
        "from stratalog.records.kernels.lookup import LAST as WANTED",
        "end = find_batch(read_into, 0, size, getattr(kernel, 'LAST'), 0)",
        "end = int(part.walk.headers[-1]['last_offset']) + 1",
        "end = int(part.walk.headers['last_offset'][-1]) + 1",
        "last = rows[n]\nend = last['last_offset'] + 1",
        "end = LogEnd(offset=5)",
        "end = log_end.LogEnd(offset=5)",
        "from stratalog.log.log_end import LogEnd as End\nend = End(offset=5)",
        "was_closed = recovery_point is None",
        "was_closed = found.recovery_point is None",
        "was_closed = None is found.recovery_point",
        "was_closed = recovery_point == None",
        "was_closed = not recovery_point",
    ],
)
def test_a_second_answer_to_where_a_log_ends_is_seen(source: str) -> None:
    assert [*finds_an_end(ast.parse(source))]


def test_what_only_uses_the_end_of_a_log_is_no_second_answer() -> None:
    source = "first['last_offset']; end.offset; point == 0; recovery_point > 3; x['last_offset'][0]"

    assert not [*finds_an_end(ast.parse(source))]


def test_no_descriptor_leaves_files() -> None:
    wrong = []
    for name, tree in modules():
        if name.startswith("files/") or name == MAPS_AS_KAFKA:
            continue
        wrong += [f"{name}:{found}" for found in uses(tree, DESCRIPTOR_CALLS)]
        wrong += [
            f"{name}:{node.lineno} .{node.attr}"
            for node in nodes(tree)
            if isinstance(node, ast.Attribute) and node.attr in ("descriptor", "fileno")
        ]
        wrong += [
            f"{name}:{found.line} {found.name}"
            for found in names_in(tree).references
            if found.name.startswith("stratalog.files.descriptors")
        ]

    assert wrong == []


def test_only_files_looks_into_the_id_of_a_file() -> None:
    numbers = {"inode", "st_ino", "st_dev"}
    wrong = [
        f"{name}:{node.lineno} .{node.attr}"
        for name, tree in modules()
        if not name.startswith("files/")
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr in numbers and not is_noted_inode(node)
    ]

    assert wrong == []


def is_noted_inode(node: ast.Attribute) -> bool:
    """`.inode` of what was written down: a manifest's line, a copy in a work directory."""
    return isinstance(node.value, ast.Name) and node.value.id in ("kept", "found")


def test_packages_that_know_logs_reach_the_disk_through_files_only() -> None:
    wrong = [
        f"{name}:{found}"
        for name, tree in modules(*KNOW_LOGS)
        for found in [*uses(tree, PATH_CALLS), *path_methods(tree)]
    ]
    with_paths = {name for name, tree in modules(*KNOW_LOGS) if has_paths(tree)}

    assert wrong == []
    assert with_paths == CONCRETE_PATHS


@pytest.mark.parametrize(
    "source",
    [
        "from pathlib import Path\nPath(name).read_bytes()",
        "import pathlib\npathlib.Path(name).unlink()",
        "from pathlib import Path\nfile = Path(name) / 'x'\nfile.exists()",
        "from pathlib import Path\ndef look(file: Path): return file.stat()",
    ],
)
def test_a_path_that_looks_at_files_is_seen(source: str) -> None:
    assert [*path_methods(ast.parse(source))]


def test_only_parts_that_read_and_change_ask_a_reader_for_the_other_half() -> None:
    asking = {name for name, tree in modules() if any(uses(tree, {"stratalog.files.disk.changing"}))}

    assert asking == READ_AND_CHANGE


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.pread(descriptor, 5, 0)",
        "import os as system\nsystem.pread(descriptor, 5, 0)",
        "from os import pread",
        "from os import pread as look",
        "import os\nlook = os.pread",
        "import os\ngetattr(os, 'pread')(descriptor, 5, 0)",
        "import importlib\nsystem = importlib.import_module('os')\nsystem.pread(descriptor, 5, 0)",
    ],
)
def test_a_function_is_seen_by_whatever_name_it_is_called(source: str) -> None:
    assert any(uses(ast.parse(source), {"os.pread"}))


def test_open_itself_is_seen_and_the_open_of_others_is_not() -> None:
    source = "with open('x') as file:\n    pass\nself.open('x')\nos.path.join('a')"

    assert [*uses(ast.parse(source), DESCRIPTOR_CALLS)] == ["1 open"]


@pytest.mark.parametrize(
    "source",
    [
        "from stratalog.files.disk import changing",
        "from stratalog.files.disk import changing as whole",
        "from stratalog.files import disk\ndisk.changing(reader)",
        "import stratalog.files.disk\nstratalog.files.disk.changing(reader)",
    ],
)
def test_whoever_asks_for_the_other_half_is_seen(source: str) -> None:
    assert any(uses(ast.parse(source), {"stratalog.files.disk.changing"}))


# What a kernel reads from a file as 64 bits, and sums of it, may be any number.
_UNTRUSTED = {"load_i64", "wrapped_sum"}


def plain_sums(tree: ast.AST) -> Iterator[str]:
    """The line of each `+` or `-` of a number that the same function has read with `load_i64`.

    LLVM assumes that plain sums never overflow, and so decides comparisons wrongly for damaged numbers.
    """
    for function in nodes(tree):
        if isinstance(function, ast.FunctionDef):
            names = {
                target.id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and _is_untrusted(node.value, set())
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in ast.walk(function):
                match node:
                    case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                        operands = [left, right]
                    case ast.AugAssign(op=ast.Add() | ast.Sub(), target=target, value=value):
                        operands = [target, value]
                    case _:
                        continue
                if any(_is_untrusted(each, names) for each in operands):
                    yield f"{node.lineno} {ast.unparse(node)}"


def _is_untrusted(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Call(func=function):
            return name_of(function) in _UNTRUSTED
        case ast.IfExp(body=body, orelse=orelse):
            return _is_untrusted(body, names) or _is_untrusted(orelse, names)
    return isinstance(node, ast.Name) and node.id in names


def test_kernels_add_numbers_of_a_file_so_that_they_wrap() -> None:
    found = {
        f"{name}:{line}"
        for name, tree in modules("records")
        if name.startswith("records/kernels/")
        for line in plain_sums(tree)
    }

    assert found == set(), "use wrapped_sum or wrapped_difference"


@pytest.mark.parametrize(
    ("source", "is_seen"),
    [
        ("load_i64(data, 0) + 1", True),
        ("1 - memory.load_i64(data, 0)", True),
        ("wrapped_sum(a, b) - 1", True),
        ("a = load_i64(data, 0)\n    return b - a", True),
        ("a = load_i64(data, 0) if is_new else -1\n    return a + 1", True),
        ("a = load_i64(data, 0)\n    b += a", True),
        ("a = load_i64(data, at + 8)\n    return wrapped_sum(a, 1)", False),
        ("a = load_i32(data, 0)\n    return a + 1", False),
        ("wrapped_difference(a, b) + 1", False),
    ],
)
def test_a_plain_sum_of_a_number_of_a_file_is_seen(source: str, is_seen: bool) -> None:
    assert bool([*plain_sums(ast.parse(f"def kernel(data):\n    {source}\n"))]) == is_seen
