"""Which files make up a log that somebody else may be changing, out of what its directory lists.

New segments take the place of old ones by several renames (`cleaning/replace.py`): `.cleaned` becomes
`.swap`, the old ones become `.deleted`, `.swap` gets its final name. Whoever looks meanwhile, or after a
broker was killed meanwhile, finds a log without its middle unless a whole `.swap` counts as what it will be.
Which ones are whole, and what they replace, is decided as a start decides it (`recovery/inventory.py`).

A listing is not taken at one moment: a file that is renamed while it is taken may be in it under neither
name, and under none that tells of it (seen beside a broker that cleaned: once in some thousand listings). So
listings are taken until two agree on the logs and on which files these are.
"""

from __future__ import annotations

from stratalog.files.entries import DirectoryEntry, EntryKind, FileId
from stratalog.files.names import FileKind, FileState, SegmentFile, parse_segment_file
from stratalog.files.reading import DiskReader

ListedFiles = dict[SegmentFile, DirectoryEntry]

_MOST_LISTINGS = 10  # of a directory whose names go on changing; what is gone then shows when it is opened
_NOT_REPLACED = frozenset((FileState.LIVE, FileState.SWAP))


def list_log(disk: DiskReader, directory: str) -> ListedFiles:
    """The segments' files in a partition's directory, with each log under one of its names."""
    files = _listed(disk, directory)
    for _ in range(_MOST_LISTINGS):
        before, files = files, _listed(disk, directory)
        if _logs(before) == _logs(files):
            break
    return files


def offsets_of(files: ListedFiles, kind: FileKind, state: FileState = FileState.LIVE) -> list[int]:
    """The offsets in the names of the files of a kind, ascending."""
    return sorted(file.offset for file in files if file.kind is kind and file.state is state)


def whole_swaps(files: ListedFiles) -> list[int]:
    """The base offsets of logs that are about to take the place of others, ascending.

    The renaming to .swap goes from the highest base down: a .cleaned file proves that it was not done, and
    that of what is above it nothing was taken away yet.
    """
    unfinished = [file.offset for file in files if file.state is FileState.CLEANED]
    return [
        offset
        for offset in offsets_of(files, FileKind.LOG, FileState.SWAP)
        if all(offset < other for other in unfinished)
    ]


def _listed(disk: DiskReader, directory: str) -> ListedFiles:
    found = {
        parse_segment_file(entry.name): entry
        for entry in disk.list_directory(directory)
        if entry.kind is EntryKind.FILE
    }
    return {file: entry for file, entry in found.items() if file is not None}


def _logs(files: ListedFiles) -> set[tuple[SegmentFile, FileId]]:
    return {
        (file, entry.id)
        for file, entry in files.items()
        if file.kind is FileKind.LOG and file.state in _NOT_REPLACED
    }
