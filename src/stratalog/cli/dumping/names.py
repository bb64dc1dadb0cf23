"""The files that a dump can read, and finding them in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from typing import NamedTuple

from stratalog.errors import InvalidNameError
from stratalog.files import names
from stratalog.files.disk import EntryKind
from stratalog.files.paths import join_path, parent_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX


class DumpedKind(Enum):
    """What is in a file.

    A value that begins with a dot is the suffix of a kind of file that Kafka's tool knows.
    """

    LOG = ".log"
    CHECKPOINT = ".checkpoint"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    SNAPSHOT = ".snapshot"
    TXN_INDEX = ".txnindex"
    OFFSETS = "offset checkpoint"
    EPOCHS = "leader epochs"
    PROPERTIES = "properties"
    CLEAN_SHUTDOWN = "clean-shutdown file"
    UNKNOWN = ""
    MISSING = "not there"
    EMPTY = "a directory without files to dump"


_BY_SUFFIX = {kind.value: kind for kind in DumpedKind if kind.value.startswith(".")}
_BY_NAME = {
    **dict.fromkeys(names.OFFSET_CHECKPOINTS, DumpedKind.OFFSETS),
    names.LEADER_EPOCH_CHECKPOINT: DumpedKind.EPOCHS,
    names.PARTITION_METADATA: DumpedKind.PROPERTIES,
    names.META_PROPERTIES: DumpedKind.PROPERTIES,
    names.CLEAN_SHUTDOWN: DumpedKind.CLEAN_SHUTDOWN,
}
# Suffixes of files that are being deleted, written or swapped in.
_STATES = tuple(state.value for state in names.FileState if state.value)


class DumpFile(NamedTuple):
    """A file to dump; `path` as given, or as found in a given directory."""

    path: str
    kind: DumpedKind


def named_files(files: str) -> list[DumpFile]:
    """The files of `--files a,b`, as Kafka's tool reads that option."""
    paths = [path for path in files.split(",") if path]
    return [DumpFile(path, _kafka_kind(PurePath(path).name)) for path in paths]


def found_files(disk: DiskReader, path: str) -> Iterator[DumpFile]:
    """The file at `path`; for a directory all files that can be dumped, those of its partitions included.

    A path that does not exist is MISSING, whatever its name: an argument that does not exist is an error. In
    `--files` a name of an unknown kind is ignored, as in Kafka's tool, even if there is no such file
    (`named_files`). A directory in which nothing can be dumped is EMPTY.
    """
    status = disk.status(path)
    if status is None:
        yield DumpFile(path, DumpedKind.MISSING)
        return
    if status.kind is not EntryKind.DIRECTORY:
        yield DumpFile(path, kind_of(PurePath(path).name))
        return
    found = [*_below(disk, path)]
    yield from found or [DumpFile(path, DumpedKind.EMPTY)]


def _below(disk: DiskReader, path: str) -> Iterator[DumpFile]:
    directories = []
    for entry in disk.list_directory(path):
        below = join_path(path, entry.name)
        if entry.kind is EntryKind.DIRECTORY:
            directories.append(below)
        elif entry.kind is EntryKind.FILE and (kind := kind_of(entry.name)) is not DumpedKind.UNKNOWN:
            yield DumpFile(below, kind)
    for directory in directories:
        yield from _below(disk, directory)


def kind_of(name: str) -> DumpedKind:
    """The kind of a file, from its name without a state suffix.

    Unlike Kafka's tool, it also knows text files.
    """
    state = next((state for state in _STATES if name.endswith(state)), "")
    return _BY_NAME.get(name) or _kafka_kind(name.removesuffix(state))


def _kafka_kind(name: str) -> DumpedKind:
    dot = name.rfind(".")
    return DumpedKind.UNKNOWN if dot < 0 else _BY_SUFFIX.get(name[dot:], DumpedKind.UNKNOWN)


def base_offset_of(name: str) -> int:
    """The number before the first dot."""
    number = name.partition(".")[0]
    digits = number.removeprefix("-").removeprefix("+")
    if not digits.isdecimal() or not -INT64_MAX - 1 <= int(number) <= INT64_MAX:
        raise InvalidNameError(name, "the name of such a file must start with its offset.")
    return int(number)


def sibling(path: str, kind: DumpedKind) -> str:
    """The same segment's file of kind `kind`, in the same state."""
    file = PurePath(path)
    state = next((state for state in _STATES if file.name.endswith(state)), "")
    return join_path(parent_path(path), f"{file.name.partition('.')[0]}{kind.value}{state}")
