"""Decides whether a path is a log directory, and names the files that decide it.

found in the directory                                    what it is
meta.properties, or __cluster_metadata-0                  a broker's, as are the others in its log.dirs
a checkpoint of recovery points, watermarks, cleaning     a log directory of ours
log directories                                           their parent: refused
segments, but no partition with files                     one partition's directory: refused
partitions with files of a log in them                    a log directory of ours
a clean-shutdown file, a journal or a note of ours        a log directory of ours
`.lock` or empty partitions, and nothing else             a log directory of ours, not written to yet
nothing, or only lost+found                               empty: refused, unless it may become one
anything else                                             an unrelated folder: refused

All code that changes files checks this first, and changes nothing in a directory that is refused. In a wrong
directory, `recover` would create segments in every folder whose name ends in a number, such as `llvm-14`.
Names that only a log directory has are checked first, so that a large directory need not be listed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from stratalog.directory import clean_state, pending_move
from stratalog.directory.checkpoint_table import CHECKPOINTS
from stratalog.directory.cluster_metadata import BOOTSTRAP_CHECKPOINT
from stratalog.directory.formatting.note import FORMAT_NOTE
from stratalog.directory.write_journal import JOURNAL, STAGED_PREFIX
from stratalog.directory.written_topics import WRITTEN_TOPICS
from stratalog.errors import (
    DiskError,
    InvalidNameError,
    MissingLogDirectoryError,
    NotALogDirectoryError,
    UsageError,
)
from stratalog.files.entries import DirectoryEntry, EntryKind, Path
from stratalog.files.names import (
    CLEAN_SHUTDOWN,
    ERASURES,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    QUARANTINE_MANIFEST,
    QUARANTINE_PREFIX,
    REMOTE_LOG_INDEX_CACHE,
    TEMPORARY_SUFFIX,
    TopicPartition,
    parse_partition_directory,
)
from stratalog.files.paths import absolute_path, join_path, parent_path
from stratalog.files.reading import DiskReader
from stratalog.records.internal_topics import CLUSTER_METADATA

LOST_AND_FOUND = "lost+found"
_BROKERS = (META_PROPERTIES, str(TopicPartition(CLUSTER_METADATA, 0)))
# Files that are in no partition's directory. (A lone log has a lock, a start and a clean-shutdown file
# there.)
_SURE = tuple(row.name for row in CHECKPOINTS if not row.is_beside_lone_logs)
_LIKELY = (
    *OFFSET_CHECKPOINTS,
    CLEAN_SHUTDOWN,
    JOURNAL,
    WRITTEN_TOPICS,
    FORMAT_NOTE,
    clean_state.NOTE,
    pending_move.NOTE,
)
_PARTITION_FILES = (PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT)
_SEGMENT_FILE = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)(\.\w+)?", re.ASCII)
_MOST_LOOKED_INTO = 20  # entries of a sub-directory that are checked, to see whether it is a log directory
_MOST_NAMES = 5  # in a message


def is_of_log_directory(name: str) -> bool:
    """Whether a broker or Stratalog keeps a file of this name in a log directory, beside the partitions."""
    plain = name.removesuffix(TEMPORARY_SUFFIX)
    kept = (LOCK, BOOTSTRAP_CHECKPOINT, QUARANTINE_MANIFEST, ERASURES)
    is_kept = plain in kept or name.startswith(QUARANTINE_PREFIX)
    return is_kept or _is_ours(name)


class Kind(Enum):
    """What a directory is; the value is the phrase for messages."""

    BROKERS = "a broker's log directory"
    OURS = "a log directory"
    PARENT = "the parent of log directories"
    PARTITION = "the directory of one partition"
    EMPTY = "an empty directory"
    MISSING = "a path that does not exist"
    NO_DIRECTORY = "not a directory"
    OTHER = "an unrelated folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryKind:
    """What the directory `path` is; `reasons` are the names in it that show this."""

    path: str
    kind: Kind
    reasons: tuple[str, ...] = ()

    @property
    def is_log_directory(self) -> bool:
        return self.kind in (Kind.BROKERS, Kind.OURS)

    @property
    def may_become_one(self) -> bool:
        """Whether a log directory can be made there."""
        return self.kind in (Kind.EMPTY, Kind.MISSING)

    def refusal(self) -> NotALogDirectoryError:
        """The error that says why nothing is changed there, and what was probably meant."""
        assert not self.is_log_directory, "a log directory is not refused"
        kind = MissingLogDirectoryError if self.kind is Kind.MISSING else NotALogDirectoryError
        return kind(self.path, self._mistake())

    def _mistake(self) -> str:
        match self.kind:
            case Kind.PARENT:
                count = len(self.reasons)
                paths = ", ".join(join_path(self.path, name) for name in self.reasons)
                if count == 1:
                    return f"it contains a log directory: name that directory: {paths}."
                return f"it contains {count} log directories: name them: {paths}."
            case Kind.PARTITION:
                above = parent_path(absolute_path(self.path))
                return f"it is the directory of one partition. Name the log directory that it is in: {above}."
            case Kind.EMPTY:
                what = f"it contains only {LOST_AND_FOUND}" if self.reasons else "it is empty"
                return f"{what}. Check log.dirs, and whether the disk is mounted here."
            case Kind.MISSING:
                return "it does not exist. Check log.dirs, and whether its disk is mounted."
            case Kind.NO_DIRECTORY:
                return "it is not a directory. Check log.dirs."
            case _:
                names = ", ".join(self.reasons[:_MOST_NAMES])
                more = ", ..." if len(self.reasons) > _MOST_NAMES else ""
                return f"it contains no partition and no checkpoint, but {names}{more}. Check the path."


def are_brokers(disk: DiskReader, directories: Sequence[Path]) -> bool:
    """Whether these directories of one node are a broker's.

    If one of them is, all are, even those without a broker's files.
    """
    for directory in directories:
        with suppress(DiskError):  # an unreadable directory decides nothing
            if kind_of(disk, directory).kind is Kind.BROKERS:
                return True
    return False


def check_log_directory(disk: DiskReader, directory: Path, *, may_be_new: bool = False) -> DirectoryKind:
    """NotALogDirectoryError unless this is a log directory, or `may_be_new` and one can be made there."""
    found = kind_of(disk, directory)
    if found.is_log_directory or (may_be_new and found.may_become_one):
        return found
    raise found.refusal()


def check_place(disk: DiskReader, place: str, directories: Sequence[str], *, option: str) -> None:
    """UsageError if files that are kept in this directory would disturb a broker.

    Files may be kept in a log directory itself, or outside of all log directories. A broker treats each
    folder in a log directory as a partition, and looks at the files of a partition.
    """
    words = "Name a directory outside of the log directories, or a log directory itself."
    if any(_is_of_a_partition(entry.name) for entry in _entries(disk, place)):
        raise UsageError(f"{option} {place}: this is the directory of a partition. {words}")
    known = {os.path.realpath(directory) for directory in directories}
    above = parent_path(os.path.realpath(place))
    while above != parent_path(above):
        if above in known or _first_of(disk, above, (*_BROKERS, *_SURE)):
            raise UsageError(
                f"{option} {place}: this is inside the log directory {above}, where a broker accepts only "
                f"the folders of partitions. {words}"
            )
        above = parent_path(above)


def kind_of(disk: DiskReader, directory: Path) -> DirectoryKind:
    """What this directory is. Changes nothing."""
    root = os.fspath(directory)
    status = disk.status(root)
    if status is None:
        return DirectoryKind(path=root, kind=Kind.MISSING)
    if status.kind is not EntryKind.DIRECTORY:
        return DirectoryKind(path=root, kind=Kind.NO_DIRECTORY)
    for kind, signs in ((Kind.BROKERS, _BROKERS), (Kind.OURS, _SURE)):
        if found := _first_of(disk, root, signs):
            return DirectoryKind(path=root, kind=kind, reasons=(found,))
    return _by_listing(disk, root)


def keeps_its_partitions(disk: DiskReader, directory: str) -> bool:
    """Whether this directory keeps the lock, the clean-shutdown file and the starts of the logs in it.

    If not, each log in it is a lone log (`home.py`), although a command may still treat the directory as a
    log directory.
    """
    return _first_of(disk, directory, (*_BROKERS, *OFFSET_CHECKPOINTS)) is not None


def _first_of(disk: DiskReader, directory: str, names: Sequence[str]) -> str | None:
    return next((name for name in names if disk.exists(join_path(directory, name))), None)


def _by_listing(disk: DiskReader, root: str) -> DirectoryKind:
    entries = disk.list_directory(root)
    folders = [
        entry.name
        for entry in entries
        if entry.kind is EntryKind.DIRECTORY and entry.name not in (LOST_AND_FOUND, REMOTE_LOG_INDEX_CACHE)
    ]
    inside = {name: _look_into(disk, join_path(root, name), name) for name in sorted(folders)}

    def these(wanted: _Inside) -> tuple[str, ...]:
        return tuple(name for name, found in inside.items() if found is wanted)

    def found(kind: Kind, reasons: Sequence[str]) -> DirectoryKind:
        return DirectoryKind(path=root, kind=kind, reasons=tuple(reasons))

    files = sorted(entry.name for entry in entries if entry.kind is not EntryKind.DIRECTORY)
    if logs := these(_Inside.LOG_DIRECTORY):
        return found(Kind.PARENT, logs)
    if partitions := these(_Inside.PARTITION):
        return found(Kind.OURS, partitions)
    if segments := [name for name in files if _is_of_a_partition(name)]:
        return found(Kind.PARTITION, segments)
    if ours := [name for name in files if _is_ours(name)]:
        return found(Kind.OURS, ours)
    others = [*these(_Inside.OTHER), *(name for name in files if name != LOCK)]
    if others:
        return found(Kind.OTHER, others)
    if unwritten := [*these(_Inside.EMPTY), *(name for name in files if name == LOCK)]:
        return found(Kind.OURS, unwritten)
    return found(Kind.EMPTY, [entry.name for entry in entries])


class _Inside(Enum):
    """What the content of a sub-directory shows."""

    PARTITION = 0
    EMPTY = 1  # it has a partition's name, and is still empty
    LOG_DIRECTORY = 2
    OTHER = 3


def _look_into(disk: DiskReader, path: str, name: str) -> _Inside:
    entries = _entries(disk, path)
    files = [entry.name for entry in entries if entry.kind is not EntryKind.DIRECTORY]
    is_named = is_partition_name(name)
    if any(file in (*_BROKERS, *_SURE) for file in files):
        return _Inside.LOG_DIRECTORY
    if any(map(_is_of_a_partition, files)):
        return _Inside.PARTITION if is_named else _Inside.OTHER
    folders = [entry.name for entry in entries if entry.kind is EntryKind.DIRECTORY]
    if _BROKERS[1] in folders or any(map(_is_ours, files)):
        # A lone log that was killed before its first segment has such a file too, but no folder.
        return _Inside.LOG_DIRECTORY if folders or not is_named else _Inside.PARTITION
    for folder in [folder for folder in folders if is_partition_name(folder)][:_MOST_LOOKED_INTO]:
        below = _entries(disk, join_path(path, folder))
        if any(_is_of_a_partition(entry.name) for entry in below if entry.kind is not EntryKind.DIRECTORY):
            return _Inside.LOG_DIRECTORY
    if folders or any(file != LOCK for file in files) or not is_named:
        return _Inside.OTHER
    return _Inside.EMPTY


def _entries(disk: DiskReader, path: str) -> list[DirectoryEntry]:
    with suppress(DiskError):  # a folder that this user may not read
        return disk.list_directory(path)
    return []


def is_partition_name(name: str) -> bool:
    """Whether a partition's directory may have this name."""
    try:
        parse_partition_directory(name)
    except InvalidNameError:
        return False
    return True


def _is_of_a_partition(name: str) -> bool:
    return (
        _SEGMENT_FILE.fullmatch(name) is not None or name.removesuffix(TEMPORARY_SUFFIX) in _PARTITION_FILES
    )


def _is_ours(name: str) -> bool:
    """Whether a file of this name, or its temporary form, shows that a directory is a log directory."""
    plain = name.removesuffix(TEMPORARY_SUFFIX)
    return plain in (*_BROKERS, *_SURE, *_LIKELY) or name.startswith(STAGED_PREFIX)
