"""Finds, in a directory listing, the files of a log that another process may be changing.

New segments replace old ones by several renames (`cleaning/replace.py`): the new `.cleaned` files become
`.swap`, the old files become `.deleted`, and the `.swap` files get their final names. A reader that looks
between two renames, or after a broker was killed there, would find a log without its middle. So a complete
`.swap` counts as the segment that it will become. The rules that a broker follows when it starts
(`recovery/inventory.py`) decide which `.swap` files are complete, and what they replace.

A listing is not atomic: a file that is renamed meanwhile may appear in it under neither name (with a broker
that was cleaning, this happened once in a few thousand listings). So the directory is listed until two
listings agree on the logs and on the identity of their files.
"""

from __future__ import annotations

from stratalog.files.entries import DirectoryEntry, EntryKind, FileId
from stratalog.files.names import FileKind, FileState, SegmentFile, parse_segment_file
from stratalog.files.reading import DiskReader

ListedFiles = dict[SegmentFile, DirectoryEntry]

# How often a directory is listed again, at most, until two listings agree. If its names still change then, a
# missing file is noticed when it is opened.
_MOST_LISTINGS = 10
_NOT_REPLACED = frozenset((FileState.LIVE, FileState.SWAP))


def list_log(disk: DiskReader, directory: str) -> ListedFiles:
    """The segments' files in a partition's directory; each .log is there under one name only."""
    files = _listed(disk, directory)
    for _ in range(_MOST_LISTINGS):
        before, files = files, _listed(disk, directory)
        if _logs(before) == _logs(files):
            break
    return files


def offsets_of(files: ListedFiles, kind: FileKind, state: FileState = FileState.LIVE) -> list[int]:
    """The offsets in the names of the files of a kind and state, ascending."""
    return sorted(file.offset for file in files if file.kind is kind and file.state is state)


def whole_swaps(files: ListedFiles) -> list[int]:
    """The base offsets of logs that are about to replace others, ascending.

    Files are renamed to .swap from the highest base down: a .cleaned file proves that the renaming was not
    finished, and that the originals of the .swap files above it are still there.
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
