"""Locks and clean-shutdown files have one place each, which everybody else goes through."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.source_names import texts
from tests.source_rules import calling, calls, last_of, modules, name_of, names_any, names_in
from tests.source_trees import nodes
from tests.test_tidy import BENCH

# These name the clean-shutdown file, and write nothing by that name.
NAME_CLEAN_SHUTDOWN_FILES = {
    "directory/lone_files.py",  # what it leaves beside a log
    "cli/demo_damage.py",  # deletes it as a power cut does, in a directory that the demo has made
    "cli/dumping/names.py",  # what `dump` calls it
    "directory/clean_shutdown.py",  # reads it
    "directory/kind.py",  # a sign of a log directory
    "directory/log_directory.py",  # says that it is missing
    "directory/startup_refusals.py",  # what a broker does where it is a folder
    "directory/work_dir.py",  # it never waits in a work directory
}
# These take a lock by `Locks`.
LOCK = {
    "directory/log_directory.py",  # of a session
    "directory/home.py",  # of a lone log, and of its quarantine
    "directory/recovery/recover.py",  # of a quarantine or work directory
    "jobs/export.py",  # of an export's folder
    "jobs/writing/commit.py",  # to delete what earlier runs of a stream have staged
    "operations/erase/erasure.py",  # of a quarantine
    "operations/quarantine.py",  # of the same
}


def takes_locks(tree: ast.AST) -> Iterator[int]:
    """The lines in which a directory's lock is made, or taken, or its file named.

    To hand on the class as `make_lock` is none of that.
    """
    names, handed_on = names_in(tree), {id(node) for node in lock_makers(tree)}
    for found in names.references:
        last = found.name.rpartition(".")[2]
        if isinstance(found.node, ast.Import | ast.ImportFrom):
            is_renamed = any(alias.name == last and alias.asname for alias in found.node.names)
            if found.name in ("fcntl", "msvcrt") or (last == "DirectoryLock" and is_renamed):
                yield found.line
        elif last in ("DirectoryLock", "acquire", "acquire_after_trial") and id(found.node) not in handed_on:
            yield found.line
    for node in nodes(tree):
        if isinstance(node, ast.Call) and last_of(names.full_name(node.func)).lstrip("_") == "make_lock":
            yield node.lineno
    yield from (line for text, line in texts(tree) if re.search(r"(^|[/\0])\.lock$", text))


def lock_makers(tree: ast.AST) -> Iterator[ast.AST]:
    """All that is in annotations, and in what a parameter, field or argument `make_lock` is by default."""
    for node in nodes(tree):
        match node:
            case ast.arguments(args=args, kwonlyargs=others, defaults=last, kw_defaults=by_name):
                defaults = [*zip(args[len(args) - len(last) :], last, strict=True)]
                for parameter, value in [*defaults, *zip(others, by_name, strict=True)]:
                    if parameter.arg == "make_lock" and value is not None:
                        yield value
            case ast.keyword(arg="make_lock", value=value):
                yield value
            case ast.AnnAssign(target=ast.Name(id="make_lock"), value=ast.expr() as value):
                yield value
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if annotation is not None:
            yield from ast.walk(annotation)


def changes_clean_shutdown_files(tree: ast.AST) -> Iterator[int]:
    """The lines in which something could be written by the name of the file: its path, or its bytes."""
    for found in names_in(tree).references:
        if last_of(found.name) == "format_clean_shutdown":
            yield found.line
    for node in nodes(tree):
        match node:
            case ast.Attribute(value=ast.Attribute(attr="file"), attr="path"):  # of a `CleanState`
                yield node.lineno
    if "CleanShutdownFile" in ast.dump(tree):  # the reader, which no other module may use the path of
        reader = {"CleanShutdownFile"}
        for node in nodes(tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and names_any(node.value, reader):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                reader |= {name_of(found) for target in targets for found in ast.walk(target)} - {"self", ""}
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr == "path" and names_any(node.value, reader):
                yield node.lineno


def names_clean_shutdown_files(tree: ast.AST) -> Iterator[int]:
    """The lines in which the file is named, by its constant or spelt out."""
    for found in names_in(tree).references:
        if found.name == "stratalog.files.names.CLEAN_SHUTDOWN":
            yield found.line
    yield from (line for text, line in texts(tree) if re.search(r"kafka_?clean|cleanshutdown", text))


def test_one_place_takes_locks() -> None:
    taking = {name for name, tree in modules() if any(takes_locks(tree))}

    # The locks of forks.py are those of threads.
    assert taking - {"files/lock.py", "files/names.py", "forks.py"} == {"directory/locking.py"}
    assert calling("Locks") == LOCK


def test_log_directories_are_locked_and_marked_clean_by_their_session_alone() -> None:
    assert calling("lock_log_directory") == {"directory/log_directory.py"}
    assert calling("LogDirectory") == {"directory/session.py"}
    assert {name for name in calling("CleanState") if not name.startswith(BENCH)} == {
        "directory/log_directory.py",
        "directory/lone_files.py",  # of a lone log
    }


def test_one_place_writes_and_deletes_clean_shutdown_files() -> None:
    changing = {name for name, tree in modules() if any(changes_clean_shutdown_files(tree))}
    naming = {name for name, tree in modules() if any(names_clean_shutdown_files(tree))}

    assert changing - {"directory/clean_shutdown.py"} == {
        "directory/clean_state.py",
        "directory/lone_files.py",  # for a message
    }
    assert naming - {"files/names.py"} == NAME_CLEAN_SHUTDOWN_FILES


@pytest.mark.parametrize(
    "source",
    [
        "with DirectoryLock(path):\n    pass",
        "lock = self._make_lock(path)\nlock.acquire()",
        "maker = self._make_lock\nwith maker(path): pass",
        "lock.acquire_after_trial()",
        "from stratalog.files.lock import DirectoryLock as Lock",
        "from stratalog.files import lock\nwith lock.DirectoryLock(path): pass",
        "import stratalog.files.lock as locks\nmade = locks.DirectoryLock",
        "with getattr(lock, 'DirectoryLock')(path): pass",
        "from stratalog.files.lock import DirectoryLock\nLock = DirectoryLock",
        "partial(DirectoryLock, path)()",
        "import fcntl",
        "path = f'{directory}/.lock'",
        "path = directory / '.lock'",
    ],
)
def test_a_second_place_that_takes_a_lock_is_seen(source: str) -> None:
    assert any(takes_locks(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "from stratalog.files.lock import DirectoryLock",
        "def open(make_lock=DirectoryLock):\n    return Session(make_lock=make_lock)",
        "def open(*, make_lock: Callable[[str], DirectoryLock] = DirectoryLock): pass",
        "class Opening:\n    make_lock: MakeLock = DirectoryLock",
    ],
)
def test_to_hand_on_what_makes_locks_is_not_to_take_one(source: str) -> None:
    assert not any(takes_locks(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "Locks(path).take()",
        "locking.Locks(path).take()",
        "from stratalog.directory.locking import Locks as Held",
        "Held = locking.Locks",
        "getattr(locking, 'Locks')(path)",
    ],
)
def test_a_caller_is_seen_by_whatever_name_it_calls(source: str) -> None:
    assert calls(ast.parse(source), "Locks")


@pytest.mark.parametrize(
    "source",
    [
        "from stratalog.files.names import CLEAN_SHUTDOWN\ndisk.replace(f'{path}/{CLEAN_SHUTDOWN}', b'')",
        "from stratalog.files.names import CLEAN_SHUTDOWN as FILE",
        "from stratalog.files import names\npath = directory / names.CLEAN_SHUTDOWN\npath.write_bytes(b'')",
        "import stratalog.files.names as n\npath = getattr(n, 'CLEAN_SHUTDOWN')",
        "(log_dir / '.kafka_cleanshutdown').unlink()",
        "path = f'{log_dir}/.kafka_cleanshutdown'",
        "path = log_dir + '/.kafka_' + 'cleanshutdown'",
        "path = b'.kafka_cleanshutdown'",
    ],
)
def test_whoever_names_a_clean_shutdown_file_is_seen(source: str) -> None:
    assert any(names_clean_shutdown_files(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "self._clean = CleanShutdownFile(disk, directory)\nself._disk.delete(self._clean.path)",
        "disk.replace(CleanShutdownFile(disk, directory).path, b'')",
        "disk.delete(directory.state.file.path)",
        "from stratalog.directory.clean_shutdown import format_clean_shutdown as bytes_of",
        "from stratalog.directory import clean_shutdown\ndata = clean_shutdown.format_clean_shutdown(5)",
    ],
)
def test_a_second_place_that_writes_or_deletes_a_clean_shutdown_file_is_seen(source: str) -> None:
    assert any(changes_clean_shutdown_files(ast.parse(source)))


def test_to_read_a_clean_shutdown_file_is_not_to_change_it() -> None:
    source = "file = CleanShutdownFile(disk, directory)\nif file.exists():\n    epoch = file.read()"

    assert not any(changes_clean_shutdown_files(ast.parse(source)))
    assert not any(names_clean_shutdown_files(ast.parse(source)))
