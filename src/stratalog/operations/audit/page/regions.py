"""Reads damaged regions for the page: their bytes, a little around them, and the headers there.

A task reads one region, on a thread or on an executor, and never more than a few megabytes of it: of a larger
region it takes samples. Batches before a region are found by a search that begins a little before it, because
nothing in a log points backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stratalog.engine.engine import Engine
from stratalog.errors import InvalidNameError
from stratalog.files.names import FileKind, FileState, parse_segment_file
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import Severity
from stratalog.operations.audit.page.headers import DecodedHeader, decode_header
from stratalog.records.batch import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.headers import ReadInto, walk_file
from stratalog.segment.resuming import search_batch

MOST_REGIONS = 100
MOST_CELLS = 2048
MOST_HEADERS = 2  # on either side of a region
MOST_INSIDE = 4
_WHOLE_BATCH = 1 << 20  # checksums of larger batches are not computed
_WHOLE_REGION = 4 << 20  # larger ones are sampled
_SAMPLE = 1024  # bytes read of each cell in a sampled region
_EXCERPT = 256  # bytes shown from the start of a region on
_BEFORE = 64  # bytes shown before the start of a region, and on both sides of its end
_NEAR = 64 << 10  # how far back to search for a batch at first
_FAR = 1200 << 10  # how far back to search then: as far as the largest batch that the defaults allow
_ZERO, _FULL = 0, 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTask:
    """A damaged region of a file: `size` bytes from `position` on. `base_offset` is that of its segment."""

    directory: str
    partition: str
    file: str
    position: int
    size: int
    base_offset: int

    @property
    def path(self) -> str:
        return join_path(join_path(self.directory, self.partition), self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRegion:
    """A damaged region with its surroundings.

    `cells` has a letter for each `cell_size` bytes from `start` on: `z` zeros, `f` bytes 0xff, `t` text, `b`
    anything else. `excerpts` are (position, bytes). `problem` says why it could not be read.
    """

    task: RegionTask
    file_size: int = 0
    start: int = 0
    cell_size: int = 1
    cells: str = ""
    excerpts: tuple[tuple[int, bytes], ...] = ()
    before: tuple[DecodedHeader, ...] = ()
    inside: tuple[DecodedHeader, ...] = ()
    after: tuple[DecodedHeader, ...] = ()
    problem: str = ""


def read_regions(
    engine: Engine, findings: Sequence[AuditFinding], *, most: int = MOST_REGIONS
) -> tuple[DamagedRegion, ...]:
    """Read the regions that findings name, in the order of the findings (the worst first).

    At most `most` are read.
    """
    tasks = regions_of(findings)[:most]
    found: dict[int, DamagedRegion] = {}
    for outcome in engine.run(read_region, tasks, paths=[task.path for task in tasks]):
        if outcome.error is None:
            found[outcome.number] = outcome.result
        else:
            found[outcome.number] = DamagedRegion(task=outcome.task, problem=str(outcome.error))
    return tuple(found[number] for number in range(len(tasks)))


def regions_of(findings: Sequence[AuditFinding]) -> list[RegionTask]:
    """The regions that findings name, each once."""
    return list(dict.fromkeys(task for finding in findings if (task := _task_of(finding)) is not None))


def _task_of(finding: AuditFinding) -> RegionTask | None:
    """The region of a finding; None for a note, and for a finding without bytes of a segment."""
    if finding.severity is Severity.NOTE or finding.position is None or not finding.size:
        return None
    try:
        name = parse_segment_file(finding.file)
    except InvalidNameError:
        return None
    if name is None or name.state is not FileState.LIVE:
        return None
    return RegionTask(
        directory=finding.directory,
        partition=finding.partition,
        file=finding.file,
        position=finding.position,
        size=finding.size,
        base_offset=name.offset,
    )


def read_region(disk: DiskReader, task: RegionTask) -> DamagedRegion:
    """Read a region and a little around it. DiskError if the file cannot be read."""
    with disk.open_read(task.path) as file:
        read_into, file_size = partial(disk.read_into, file), disk.size(file)
        position, end = min(task.position, file_size), min(task.position + task.size, file_size)
        found = DamagedRegion(
            task=task, file_size=file_size, excerpts=_excerpts(read_into, position, end, file_size)
        )
        found = _with_cells(found, read_into, position, end)
        if not task.file.endswith(FileKind.LOG.value):
            return found
        return replace(
            found,
            before=_before(read_into, task, position, file_size),
            inside=_headers(read_into, position, end, file_size, MOST_INSIDE),
            after=_headers(read_into, end, file_size, file_size, MOST_HEADERS),
        )


def _read(read_into: ReadInto, start: int, end: int) -> Bytes:
    buffer = np.empty(max(end - start, 0), np.uint8)
    return buffer[: read_into(buffer, start)] if len(buffer) else buffer


def _excerpts(read_into: ReadInto, position: int, end: int, file_size: int) -> tuple[tuple[int, bytes], ...]:
    """The bytes at the start and at the end of a region; one range if they meet."""
    first = max(0, position - _BEFORE) // 16 * 16, min(file_size, position + _EXCERPT)
    last = max(0, end - _BEFORE) // 16 * 16, min(file_size, end + _BEFORE)
    ranges = [(first[0], last[1])] if last[0] <= first[1] else [first, last]
    return tuple((start, _read(read_into, start, stop).tobytes()) for start, stop in ranges)


def _with_cells(region: DamagedRegion, read_into: ReadInto, position: int, end: int) -> DamagedRegion:
    margin = max(64, min((end - position) // 4, 64 << 10))
    start, stop = max(0, position - margin), min(region.file_size, end + margin)
    cell_size = 1
    while cell_size * MOST_CELLS < stop - start:
        cell_size *= 2
    if stop - start <= _WHOLE_REGION:
        data = _read(read_into, start, stop)
        cells = _letters(data, cell_size)
    else:
        places = range(start, stop, cell_size)
        cells = "".join(_letters(_read(read_into, at, min(at + _SAMPLE, stop)), _SAMPLE)[:1] for at in places)
    return replace(region, start=start, cell_size=cell_size, cells=cells)


def _letters(data: Bytes, cell_size: int) -> str:
    """A letter for each cell of a buffer; the last cell may be smaller."""
    if not len(data):
        return ""
    starts = np.arange(0, len(data), cell_size)
    sizes = np.minimum(starts + cell_size, len(data)) - starts

    def share(matches: NDArray[np.bool_]) -> NDArray[np.float64]:
        counts: NDArray[np.float64] = np.add.reduceat(matches.astype(np.int64), starts) / sizes
        return counts

    is_text = ((data >= 0x20) & (data < 0x7F)) | (data == 0x0A) | (data == 0x0D) | (data == 0x09)
    letters = np.full(len(starts), "b")
    letters[share(is_text) >= 0.75] = "t"
    letters[share(data == _FULL) == 1] = "f"
    letters[share(data == _ZERO) == 1] = "z"
    return "".join(letters.tolist())


def _before(
    read_into: ReadInto, task: RegionTask, position: int, file_size: int
) -> tuple[DecodedHeader, ...]:
    """The last batches before a region."""
    for distance in (_NEAR, _FAR):
        first: int | None = max(0, position - distance)
        if first:
            above, below = task.base_offset - 1, task.base_offset + 2**31
            first = search_batch(read_into, first, position, above=above, below=below)
        if first is None or first >= position:
            continue
        parts = walk_file(read_into, first, position, check_crc=False)
        places = [
            *chain.from_iterable((part.walk.headers["position"] + part.position).tolist() for part in parts)
        ]
        if places:
            return tuple(
                header
                for place in places[-MOST_HEADERS:]
                for header in _headers(read_into, place, position, file_size, 1)
            )
    return ()


def _batch_size(header: Bytes) -> int:
    """The size that a header says, in any format; 0 if its length field is not whole."""
    if len(header) < LOG_OVERHEAD:
        return 0
    return int.from_bytes(header[8:LOG_OVERHEAD].tobytes(), "big", signed=True) + LOG_OVERHEAD


def _headers(
    read_into: ReadInto, position: int, end: int, file_size: int, most: int
) -> tuple[DecodedHeader, ...]:
    """The headers of the batches from a byte on, as far as each length leads to another batch."""
    found: list[DecodedHeader] = []
    while position < end and len(found) < most:
        first = _read(read_into, position, min(position + RECORD_BATCH_OVERHEAD, file_size))
        header = decode_header(first, position, file_size - position)
        size = _batch_size(first)
        if len(first) < size <= min(_WHOLE_BATCH, file_size - position):
            data = _read(read_into, position, position + size)
            header = decode_header(data, position, file_size - position)
        if header is None:
            break
        found.append(header)
        if header.size is None:
            break
        position += header.size
    return tuple(found)
