"""`.snapshot` files: the state of a log's producers. Kafka: DumpLogSegments.dumpProducerIdSnapshot"""

from __future__ import annotations

from stratalog.cli.dumping.printer import Printer
from stratalog.errors import CorruptSnapshotError
from stratalog.files.reading import DiskReader
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.snapshot import parse_snapshot


def dump_snapshot(disk: DiskReader, path: str, printer: Printer) -> None:
    """Print the producers in the order of the file. A corrupt snapshot only adds a complaint."""
    data = disk.read_at(path, disk.size(path), 0)
    try:
        entries = parse_snapshot(data)
    except CorruptSnapshotError as error:
        facts = {"complaint": "corrupt_snapshot", "path": path, "reason": error.reason}
        printer.complain(f"{path}: {error.reason}", facts)
        return
    for entry in entries:
        printer.line(*_told(entry))


def _told(entry: ProducerStateEntry) -> tuple[str, dict[str, object]]:
    first_offset = entry.current_txn_first_offset
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: OptionalLong{'.empty' if first_offset is None else f'[{first_offset}]'} "
        f"lastTimestamp: {entry.last_timestamp}"
    )
    facts: dict[str, object] = {
        "type": "producer",
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_first_offset": first_offset,
        "last_timestamp": entry.last_timestamp,
    }
    for batch in entry.batches[:1]:
        text += (
            f" firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
        )
        facts |= {
            "first_sequence": batch.first_sequence,
            "last_sequence": batch.last_sequence,
            "last_offset": batch.last_offset,
            "offset_delta": batch.offset_delta,
            "timestamp": batch.timestamp,
        }
    return text, facts
