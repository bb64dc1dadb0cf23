"""A log in outline, for listings of many logs: its segments by name and size, its first and last batch.

Only names, sizes, offset indexes and a few batch headers are read; no records, whatever the size of the
log. A `LogView` knows more about a log, and takes several times as long. A broker may run meanwhile
(`looking.py`): the directory is listed until two listings agree, and if a file is gone by then, everything is
read again.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptRecordError, DiskError
from stratalog.files.names import FileKind, FileState, parse_segment_file
from stratalog.files.reading import DiskReader
from stratalog.log.api.looking import ATTEMPTS, Looker
from stratalog.log.log_end import last_batch
from stratalog.records.batch import RECORD_BATCH_OVERHEAD, Attributes
from stratalog.records.compression import CODEC_MASK, Codec
from stratalog.records.kernels.index import OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.segment.segment_reader import SegmentReader

_LOG = FileKind.LOG.value
_REPLACING = (FileState.CLEANED.value, FileState.SWAP.value)
_MOST_LISTINGS = 10
_HAS_OTHER_TIME = Attributes.LOG_APPEND_TIME | Attributes.DELETE_HORIZON


class LogOutline(NamedTuple):
    """A log at one moment. `first` and `last` are its first and last whole batch; None in an empty log.

    `first` is None also if damage hides it. `sizes` are those of its .log files, without the zeros at the end
    of a preallocated one.
    """

    segments: tuple[SegmentReader, ...]
    sizes: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    first: BatchRow | None
    last: BatchRow | None

    @property
    def size(self) -> int:
        """What Kafka calls the size of a log: the bytes of its .log files."""
        return sum(self.sizes)


def outline_of(
    disk: DiskReader, clock: Clock, directory: str, config: LogConfig, log_start_offset: int = 0
) -> LogOutline:
    """The log in a partition's directory; `log_start_offset` is where its owner says that it starts."""
    for attempt in range(ATTEMPTS):
        try:
            return _outline(disk, clock, directory, config, log_start_offset)
        except DiskError as error:
            if error.errno != errno.ENOENT or attempt == ATTEMPTS - 1:
                raise
            disk.release(directory)
    raise AssertionError("the last attempt returns or raises")


def first_time(batch: BatchRow) -> int:
    """The timestamp of the first record of a batch, as far as its header says; -1 if it has none.

    The header of a batch with log append time, or of one that compaction gave a horizon, has only the
    largest timestamp.
    """
    return batch.max_timestamp if batch.attributes & _HAS_OTHER_TIME else batch.base_timestamp


def codec_name(batch: BatchRow) -> str:
    """The codec of a batch in Kafka's words; the number if no release knows it."""
    number = batch.attributes & CODEC_MASK
    return Codec(number).kafka_name if number <= Codec.ZSTD else str(number)


def _outline(
    disk: DiskReader, clock: Clock, directory: str, config: LogConfig, given_start: int
) -> LogOutline:
    names = _listed(disk, directory)
    if any(name.endswith(_REPLACING) for name in names):
        # New segments are about to replace others: `list_log` decides which of them belong to the log.
        segments = tuple(Looker(disk, clock, directory, config).look(given_start).segments)
    else:
        segments = _segments(disk, directory, config, names)
    if not segments:
        return LogOutline((), (), given_start, given_start, None, None)
    sizes = [segment.size for segment in segments]
    last, end = None, segments[-1].base_offset
    for segment in reversed(segments):
        last = last_batch(segment)
        if segment is segments[-1]:
            sizes[-1] = _written_size(disk, segment.log_path, sizes[-1], last)
        if last is not None:
            end = max(end, last.last_offset + 1)
            break
    start = min(max(given_start, segments[0].base_offset), end)
    first = None if last is None else _first(segments, start)
    return LogOutline(segments, tuple(sizes), start, end, first, last)


def _written_size(disk: DiskReader, path: str, size: int, last: BatchRow | None) -> int:
    """The size of an active segment as its writer counts it: a preallocated file ends with zeros."""
    end = 0 if last is None else last.position + last.size
    if end >= size or disk.read_at(path, RECORD_BATCH_OVERHEAD, end).strip(b"\0"):
        return size
    return end


def _listed(disk: DiskReader, directory: str) -> dict[str, int]:
    """The names in the directory and the sizes of .log files, once two listings agree on the names."""
    names = disk.list_sizes(directory, _LOG)
    for _ in range(_MOST_LISTINGS):
        before, names = names, disk.list_sizes(directory, _LOG)
        if before.keys() == names.keys():
            break
    return names


def _segments(
    disk: DiskReader, directory: str, config: LogConfig, names: dict[str, int]
) -> tuple[SegmentReader, ...]:
    found = []
    for name in sorted(names):
        file = parse_segment_file(name) if name.endswith(_LOG) else None
        if file is not None:
            stem = name.removesuffix(_LOG)
            has_index, has_time_index = (
                f"{stem}{kind.value}" in names for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
            )
            found.append(
                SegmentReader(
                    disk,
                    directory,
                    file.offset,
                    config,
                    size=names[name],
                    has=(has_index, has_time_index, None),
                )
            )
    return tuple(found)


def _first(segments: tuple[SegmentReader, ...], start: int) -> BatchRow | None:
    """The first batch that has an offset from `start` on; None if damage hides it."""
    bases = [segment.base_offset for segment in segments]
    number = max(0, sum(base <= start for base in bases) - 1)
    for segment in segments[number:]:
        position = 0 if start <= segment.base_offset else segment.offset_index.lookup(start).position
        try:
            found = segment.find_batch(position, OFFSET_AT_LEAST, start) if segment.size else None
        except CorruptRecordError:
            return None
        if found is not None:
            return found
    return None
