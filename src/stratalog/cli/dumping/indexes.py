"""`.index`, `.timeindex` and `.txnindex` files: their entries, compared with the log.

Entries end where the zeros of a preallocated file begin; Kafka's tool prints the first zeros as an entry.
Nothing is written here. Kafka's tool does write: it creates a missing .index, and truncates one whose last
entry is incomplete.

Kafka: DumpLogSegments.dumpIndex, dumpTimeIndex, dumpTxnIndex
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath

from stratalog.cli.dumping.complaints import Complaints
from stratalog.cli.dumping.log_lookup import LogLookup
from stratalog.cli.dumping.names import DumpedKind, base_offset_of, sibling
from stratalog.cli.dumping.options import DumpOptions
from stratalog.cli.dumping.printer import Printer
from stratalog.errors import CorruptIndexError
from stratalog.files.reading import DiskReader
from stratalog.segment.offset_index import OffsetEntry, OffsetIndex
from stratalog.segment.time_index import TimeEntry, TimeIndex
from stratalog.segment.txn_index import TransactionIndex

NO_TIMESTAMP = -1
NO_OFFSET = -1
MAGIC_V2 = 2


def dump_offset_index(
    disk: DiskReader, path: str, options: DumpOptions, printer: Printer, complaints: Complaints
) -> None:
    """Print the entries of an .index, and complain about those that lead to a different batch."""
    index = OffsetIndex(disk, path, base_offset_of(PurePath(path).name), max_size=0)
    size = disk.size(path)
    with _log_of(disk, path, printer) as log:
        if not index.entry_count:
            printer.line(f"{path} is empty.", {"type": "empty_index"})
            return
        if options.index_sanity_check:
            _check(printer, path, lambda: _check_offset_index(index, log))
            return
        for entry in map(index.entry, range(index.entry_count)):
            batch = log.batch_at(entry.position)
            if batch is not None and batch.last_offset != entry.offset:
                complaints.offset_mismatch(path, entry.offset, batch.last_offset)
            elif batch is None and log.exists:
                _tell_nothing_there(printer, path, entry)
            if not options.verify_index_only:
                facts = {"type": "offset_index_entry", "offset": entry.offset, "position": entry.position}
                printer.line(f"offset: {entry.offset} position: {entry.position}", facts)
        _tell_partial_entry(printer, path, size % index.entry_size)


def dump_time_index(
    disk: DiskReader, path: str, options: DumpOptions, printer: Printer, complaints: Complaints
) -> None:
    """Print the entries of a .timeindex, and complain about those that the batches contradict."""
    base_offset = base_offset_of(PurePath(path).name)
    index = TimeIndex(disk, path, base_offset, max_size=0)
    offsets = OffsetIndex(disk, sibling(path, DumpedKind.OFFSET_INDEX), base_offset, max_size=0)
    size = disk.size(path)
    with _log_of(disk, path, printer) as log:
        if options.index_sanity_check:
            _check(printer, path, lambda: index.sanity_check(_last_offset(offsets, log)))
            return
        previous = NO_TIMESTAMP
        for entry in map(index.entry, range(index.entry_count)):
            if log.exists:
                _compare(path, entry, previous, offsets, log, complaints)
            if not options.verify_index_only:
                facts = {"type": "time_index_entry", "timestamp": entry.timestamp, "offset": entry.offset}
                printer.line(f"timestamp: {entry.timestamp} offset: {entry.offset}", facts)
            previous = entry.timestamp
        _tell_partial_entry(printer, path, size % index.entry_size)


def _compare(
    path: str, entry: TimeEntry, previous: int, offsets: OffsetIndex, log: LogLookup, complaints: Complaints
) -> None:
    """Compare an entry of a time index with the batch it names, and with the previous entry."""
    batch = log.first_batch_reaching(entry.offset, offsets.lookup(entry.offset).position)
    if batch is None or batch.last_offset != entry.offset:
        complaints.unknown_offset(path, entry.offset, NO_OFFSET if batch is None else batch.last_offset)
        return
    max_timestamp = log.max_timestamp(batch)
    if max_timestamp != entry.timestamp:
        complaints.timestamp_mismatch(path, entry.timestamp, max_timestamp)
    if previous >= entry.timestamp:
        complaints.descending_timestamp(path, entry.timestamp, previous)


def dump_txn_index(disk: DiskReader, path: str, printer: Printer) -> None:
    """Print the aborted transactions of a segment."""
    index = TransactionIndex(disk, path, base_offset_of(PurePath(path).name))
    disk.size(path)  # DiskError if the file is missing: the index would treat it as empty
    for aborted in index.all_aborted():
        version = aborted.version >> 8  # Kafka looks only at the first of the two bytes
        printer.line(
            f"version: {version} producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
            f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}",
            {"type": "aborted_transaction", **aborted._asdict(), "version": version},
        )


@contextmanager
def _log_of(disk: DiskReader, path: str, printer: Printer) -> Iterator[LogLookup]:
    """The log that an index belongs to. A missing log is reported, and treated as empty."""
    log_path = sibling(path, DumpedKind.LOG)
    with LogLookup(disk, log_path) as log:
        if not log.exists:
            facts = {"complaint": "log_missing", "path": path, "log": log_path}
            printer.fail(f"{path} is not compared with {log_path}, which does not exist.", facts)
        yield log


def _check_offset_index(index: OffsetIndex, log: LogLookup) -> None:
    """Check the index, and that the batch of its last entry does not start after the entry's offset."""
    index.sanity_check(log.size)
    entry = index.last_entry
    batch = log.batch_at(entry.position)
    if batch is None:
        raise CorruptIndexError(
            index.path, f"its last entry points to byte {entry.position}, where no batch starts."
        )
    # The entry's offset is never below the base offset of the batch. Before 2.0, an entry had the first
    # offset of the append; since then it has the last one, which may belong to a later batch. An old wrapper
    # message does not say its first offset, so only v2 batches are checked.
    if batch.magic == MAGIC_V2 and entry.offset < batch.base_offset:
        raise CorruptIndexError(
            index.path,
            f"its last entry says offset {entry.offset} for byte {entry.position}, where a batch starts with "
            f"offset {batch.base_offset}.",
        )


def _last_offset(offsets: OffsetIndex, log: LogLookup) -> int:
    """The last offset of the log, found from its last indexed batch on; -1 if it has no batch."""
    batch = log.last_batch(offsets.last_entry.position)
    return NO_OFFSET if batch is None else batch.last_offset


def _check(printer: Printer, path: str, check: Callable[[], None]) -> None:
    try:
        check()
    except CorruptIndexError as error:
        facts = {"type": "sanity_check", "passed": False, "reason": error.reason}
        printer.fail(f"{path} failed sanity check: {error.reason}", facts)
    else:
        facts = {"type": "sanity_check", "passed": True}
        printer.line(f"{path} passed sanity check.", facts)


def _tell_nothing_there(printer: Printer, path: str, entry: OffsetEntry) -> None:
    facts = {"complaint": "no_batch", "path": path, "offset": entry.offset, "position": entry.position}
    printer.fail(
        f"{path}: offset {entry.offset} points to byte {entry.position}, where no batch starts.", facts
    )


def _tell_partial_entry(printer: Printer, path: str, size: int) -> None:
    if size:
        facts = {"complaint": "partial_entry", "path": path, "size": size}
        printer.complain(f"{path} ends with {size} bytes that are not an entry.", facts)
