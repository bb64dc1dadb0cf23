"""Erases records from the files that recovery has put into quarantine.

Quarantine holds ranges of logs as they were cut off. A range in which every batch can be read is rewritten
without the selected records, or left alone if it has none. A range that cannot be read to its end (a torn
tail, a flipped bit) may hold selected records in the unreadable part, so it is deleted as a whole. A
rewritten or deleted range gets a new line in the manifest; the old line, whose file is gone, is not used any
more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stratalog.files.names import FileKind, parse_segment_file
from stratalog.files.paths import last_name
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.erase import (
    BeforeSwap,
    FileOfBatches,
    Rewritten,
    ToErase,
    What,
    find_records,
    gone_file,
    proven,
)
from stratalog.log.cleaning.erase_filter import ErasedRun, erase_runs
from stratalog.log.cleaning.erase_selection import Found, Matcher, Selection
from stratalog.log.recovery.manifest import ManifestEntry
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.records.kernels.memory import Bytes


class KeptBytes:
    """The bytes that were kept as one range, readable like a file."""

    def __init__(self, disk: DiskReader, quarantine: Quarantine, kept: ManifestEntry) -> None:
        self.log_path = quarantine.path_of(kept)
        self.size = sum(part.size for part in kept.parts)
        self._disk, self._quarantine, self._kept = disk, quarantine, kept

    def read_into(self, buffer: Bytes, position: int) -> int:
        done, start = 0, 0
        for part in self._kept.parts:
            skipped = max(0, position + done - start)
            wanted = buffer[done : done + max(0, part.size - skipped)]
            start += part.size
            if not len(wanted) or skipped >= part.size:
                continue
            if part.file is None:
                wanted[:] = 0
            else:
                path = self._quarantine.path(part.file)
                if self._disk.read_into(path, wanted, part.at + skipped) < len(wanted):
                    return done
            done += len(wanted)
        return done


def find_kept(
    disk: DiskReader,
    quarantine: Quarantine,
    partition: str,
    matcher: Matcher,
    *,
    reader: DiskReader,
    searching: Matcher,
) -> Iterator[ToErase]:
    """The files of a partition in quarantine that hold, or may hold, selected records.

    Files are read through `reader` and searched by `searching`, which belong to the thread that looks.
    """
    for kept in quarantine.entries():
        if kept.partition != partition or not kept.files or not _may_hold(kept, matcher.selection):
            continue
        file = KeptBytes(reader, quarantine, kept)
        found = find_records(file, searching)
        if found.records_count or found.problem is not None:
            is_gone = found.problem is not None
            erase = (
                partial(_remove, disk, quarantine, kept, found)
                if is_gone
                else partial(_rewrite, disk, quarantine, kept, matcher)
            )
            yield ToErase(
                file=last_name(file.log_path),
                what=What.QUARANTINE,
                found=found,
                size=file.size,
                is_gone=is_gone,
                erase=erase,
            )
    for name in quarantine.unknown_files(partition):
        unknown = FileOfBatches(disk, quarantine.path(name))
        found = find_records(FileOfBatches(reader, unknown.log_path, unknown.size), searching)
        if found.records_count or found.problem is not None:
            yield ToErase(
                file=name,
                what=What.QUARANTINE,
                found=found,
                size=unknown.size,
                is_gone=True,
                erase=partial(_remove_unknown, quarantine, name, unknown, found),
            )


def _rewrite(
    disk: DiskReader, quarantine: Quarantine, kept: ManifestEntry, matcher: Matcher, before_swap: BeforeSwap
) -> Rewritten:
    old = KeptBytes(disk, quarantine, kept)
    changed: list[NDArray[np.int64]] = []
    done: list[Rewritten] = []

    def pieces(runs: Iterator[ErasedRun]) -> Iterator[Bytes]:
        for run in runs:
            changed.append(run.changed)
            yield run.data

    def check(written: ManifestEntry) -> None:
        new = KeptBytes(disk, quarantine, written)
        done.append(proven(old, new, matcher, np.concatenate(changed)))
        before_swap(done[0])

    words = f"{kept.reason}; records of it were erased later"
    with erase_runs(old, matcher) as runs:
        quarantine.replace(kept, pieces(runs), reason=words, check=check)
    return done[0]


def _remove(
    disk: DiskReader, quarantine: Quarantine, kept: ManifestEntry, found: Found, before_swap: BeforeSwap
) -> Rewritten:
    gone = gone_file(KeptBytes(disk, quarantine, kept), found)
    before_swap(gone)
    words = f"{kept.reason}; removed later, as it may have held records that were erased"
    quarantine.replace(kept, None, reason=words)
    return gone


def _remove_unknown(
    quarantine: Quarantine, name: str, file: FileOfBatches, found: Found, before_swap: BeforeSwap
) -> Rewritten:
    gone = gone_file(file, found)
    before_swap(gone)
    quarantine.delete_unknown(name)
    return gone


def _may_hold(kept: ManifestEntry, selection: Selection) -> bool:
    """Whether it may hold selected records: only a .log has records, at or above the offset in its name."""
    file = parse_segment_file(kept.file)
    return file is not None and file.kind is FileKind.LOG and selection.may_reach(file.offset, None)
