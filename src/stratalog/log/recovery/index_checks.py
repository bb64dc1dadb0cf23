"""Checks whether the indexes of a segment that is not scanned match its log, without scanning the log.

A broker does not check this when it starts. If an index is padded with zeros or belongs to another segment,
the broker may roll the segment at once. Or it may take 0 for the segment's largest timestamp, and delete the
segment; or it may find no records by time (`docs/formats/offset-index.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from stratalog.errors import CorruptIndexError, CorruptRecordError
from stratalog.files.names import FileKind, FileState, segment_file_name
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.log.recovery.facts import FileFact, Finding, FindingKind
from stratalog.log.recovery.inventory import FoundSegment
from stratalog.records.kernels import index as kernel
from stratalog.segment.headers import find_batch
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.time_index import TimeIndex
from stratalog.segment.txn_index import ENTRY_SIZE, TransactionIndex


class IndexState(Enum):
    """The state of an index file."""

    GOOD = "good"
    MISSING = "missing"
    PADDED = "padded"  # with good entries, and zeros after them
    TORN = "torn"  # a transaction index with good entries, and a part of one after them
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCheck:
    """The state of a segment's three indexes; if one is not GOOD, `findings` say why.

    `is_log_broken` is set if the end of a cleanly closed log cannot be read.
    """

    index: IndexState = IndexState.GOOD
    time_index: IndexState = IndexState.GOOD
    txn_index: IndexState = IndexState.GOOD
    findings: tuple[Finding, ...] = ()
    is_log_broken: bool = False
    index_size: int = 0
    """Bytes of entries in a padded offset index."""

    @property
    def needs_load_pass(self) -> bool:
        """Whether the segment is recovered even below the recovery point."""
        is_unusable = self.txn_index in (IndexState.CORRUPT, IndexState.TORN)
        return is_unusable or self.index is IndexState.MISSING or self.is_log_broken

    @property
    def needs_scan(self) -> bool:
        """Whether an index must be rebuilt. A padded time index may lack its last entry."""
        return (
            self.needs_load_pass or self.index is IndexState.CORRUPT or self.time_index is not IndexState.GOOD
        )


def check_indexes(
    disk: DiskReader,
    directory: str,
    files: FoundSegment,
    *,
    next_base: int = INT64_MAX,
    is_rebuilt: bool = False,
) -> IndexCheck:
    """Check the indexes.

    With `is_rebuilt`, a scan rebuilds them anyway, so this only looks for what makes a broker's load pass
    recover the segment.
    """
    findings: list[Finding] = []
    txn_index = _check_txn_index(disk, directory, files, findings, is_rebuilt=is_rebuilt)
    if files.index is None:
        # When a broker finishes a swap, it creates a missing index full of zeros, and recovers nothing. Here
        # the index is built from the log, without recovering the segment. Recovering it would write producer
        # snapshots again, but only from those batches that compaction has left.
        is_swapped = files.log.name.endswith(FileState.SWAP.value)
        state = IndexState.CORRUPT if is_swapped else IndexState.MISSING
        if not is_rebuilt and files.log.size:
            findings.append(
                _finding(FindingKind.MISSING_INDEX, files, FileKind.OFFSET_INDEX, "The file is missing.")
            )
        time_index = IndexState.MISSING if is_swapped else IndexState.GOOD
        return IndexCheck(index=state, time_index=time_index, txn_index=txn_index, findings=tuple(findings))
    if is_rebuilt:
        return IndexCheck(txn_index=txn_index, findings=tuple(findings))
    index, index_size = _check_offset_index(disk, directory, files, findings)
    time_index = _check_time_index(disk, directory, files, next_base, findings)
    return IndexCheck(
        index=index,
        time_index=time_index,
        txn_index=txn_index,
        findings=tuple(findings),
        index_size=index_size,
    )


def _check_offset_index(
    disk: DiskReader, directory: str, files: FoundSegment, findings: list[Finding]
) -> tuple[IndexState, int]:
    """The state of the index, and how many of its bytes are entries."""
    assert files.index is not None
    path, log_path = _path(directory, files.index), _path(directory, files.log)
    index = OffsetIndex(disk, path, files.base_offset, max_size=0, exists=True)
    try:
        index.sanity_check(files.log.size)
        last = index.last_entry
        if last.position:
            batch = find_batch(
                lambda buffer, position: disk.read_into(log_path, buffer, position),
                last.position,
                files.log.size,
                kernel.OFFSET_AT_LEAST,
                INT64_MIN,
                path=log_path,
            )
            if batch is None or batch.base_offset > last.offset:
                raise CorruptIndexError(
                    path, f"its last entry points to a place without a batch of offset {last.offset}."
                )
        state = _padding(index, files, files.index, FileKind.OFFSET_INDEX, findings)
        return state, index.entry_count * index.entry_size
    except (CorruptIndexError, CorruptRecordError) as error:
        findings.append(_finding(FindingKind.CORRUPT_INDEX, files, FileKind.OFFSET_INDEX, str(error)))
        return IndexState.CORRUPT, 0
    finally:
        index.forget()


def _check_time_index(
    disk: DiskReader, directory: str, files: FoundSegment, next_base: int, findings: list[Finding]
) -> IndexState:
    if files.time_index is None:
        if not files.log.size:
            return IndexState.MISSING
        findings.append(
            _finding(FindingKind.MISSING_INDEX, files, FileKind.TIME_INDEX, "The file is missing.")
        )
        return IndexState.MISSING
    path = _path(directory, files.time_index)
    index = TimeIndex(disk, path, files.base_offset, max_size=0, exists=True)
    try:
        index.sanity_check(next_base - 1)
        return _padding(index, files, files.time_index, FileKind.TIME_INDEX, findings)
    except CorruptIndexError as error:
        findings.append(_finding(FindingKind.CORRUPT_INDEX, files, FileKind.TIME_INDEX, str(error)))
        return IndexState.CORRUPT
    finally:
        index.forget()


def _check_txn_index(
    disk: DiskReader, directory: str, files: FoundSegment, findings: list[Finding], *, is_rebuilt: bool
) -> IndexState:
    if files.txn_index is None:
        return IndexState.GOOD
    path = _path(directory, files.txn_index)
    index = TransactionIndex(disk, path, files.base_offset, exists=True)
    try:
        index.sanity_check()
    except CorruptIndexError as error:
        findings.append(_finding(FindingKind.CORRUPT_INDEX, files, FileKind.TXN_INDEX, str(error)))
        return IndexState.CORRUPT
    finally:
        index.forget()
    torn_size = files.txn_index.size % ENTRY_SIZE
    if not torn_size:
        return IndexState.GOOD
    # A broker reads only whole entries, so that readers get the records of an aborted transaction.
    words = f"{path}: its last entry is cut off: only {torn_size} of {ENTRY_SIZE} bytes of it are there."
    finding = _finding(FindingKind.CORRUPT_INDEX, files, FileKind.TXN_INDEX, words)
    if is_rebuilt:
        # Not because of this does a broker recover the segment in its load pass.
        findings.append(finding)
        return IndexState.GOOD
    consequence = (
        "It is rebuilt. If damage stays in the segment, its whole entries are kept, and the entry of an "
        "aborted transaction after the damage may be missing."
    )
    findings.append(replace(finding, consequence=consequence))
    return IndexState.TORN


def _padding(
    index: OffsetIndex | TimeIndex,
    files: FoundSegment,
    fact: FileFact,
    kind: FileKind,
    findings: list[Finding],
) -> IndexState:
    padding = fact.size - index.entry_count * index.entry_size
    if not padding:
        return IndexState.GOOD
    words = f"{padding} bytes of zeros follow its {index.entry_count} entries."
    findings.append(_finding(FindingKind.PADDED_INDEX, files, kind, words))
    return IndexState.PADDED


def _finding(kind: FindingKind, files: FoundSegment, of: FileKind, words: str) -> Finding:
    consequence = "It is cut to its entries." if kind is FindingKind.PADDED_INDEX else "It is rebuilt."
    name = segment_file_name(files.base_offset, of)
    return Finding(kind=kind, file=name, words=words, consequence=consequence)


def _path(directory: str, fact: FileFact) -> str:
    return join_path(directory, fact.name)
