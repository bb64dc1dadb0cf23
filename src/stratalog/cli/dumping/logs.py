"""`.log` and `.checkpoint` files: batches, and their records if the dump is deep.

Kafka: DumpLogSegments.dumpLog
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from stratalog.cli.dumping.chunks import DumpedBatches, End
from stratalog.cli.dumping.complaints import Complaints
from stratalog.cli.dumping.names import DumpedKind, base_offset_of
from stratalog.cli.dumping.options import DumpOptions
from stratalog.cli.dumping.printer import Facts, Printer
from stratalog.cli.dumping.runs import Fault
from stratalog.errors import InvalidNameError
from stratalog.files.names import parse_kraft_snapshot_file
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX
from stratalog.segment.headers import BatchChunk

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"

PrintChunk = Callable[[BatchChunk], Iterator[Fault]]


def dump_log(
    disk: DiskReader,
    path: str,
    kind: DumpedKind,
    options: DumpOptions,
    printer: Printer,
    complaints: Complaints,
) -> None:
    """Print the batches of a file. A batch that cannot be read is reported, and the dump goes on."""
    text, facts = _headline(PurePath(path).name, kind)
    if not printer.as_json:
        printer.line(text, {})
    with disk.open_read(path) as file:
        size = disk.size(file)
        end = min(size, options.max_bytes) if options.max_bytes != INT32_MAX else size
        batches = DumpedBatches(disk, file, options.position, end)
        print_chunk = _chunk_printer(path, facts, options, printer, complaints)
        for chunk in batches:
            for fault in print_chunk(chunk):
                _tell_fault(printer, path, fault)
    if options.max_bytes == INT32_MAX:
        _tell_end(printer, path, batches.end_found)


def _headline(name: str, kind: DumpedKind) -> tuple[str, Facts]:
    if kind is DumpedKind.LOG:
        base_offset = base_offset_of(name)
        return f"Log starting offset: {base_offset}", {"log_starting_offset": base_offset}
    if name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot", {"bootstrap": True}
    snapshot = parse_kraft_snapshot_file(name)
    if snapshot is None:
        raise InvalidNameError(name, "a .checkpoint file must be named after its end offset and epoch.")
    return (
        f"Snapshot end offset: {snapshot.end_offset}, epoch: {snapshot.epoch}",
        {"end_offset": snapshot.end_offset, "epoch": snapshot.epoch},
    )


def _chunk_printer(
    path: str, facts: Facts, options: DumpOptions, printer: Printer, complaints: Complaints
) -> PrintChunk:
    if printer.as_json:
        from stratalog.cli.dumping.json_batches import JsonBatches

        printer.line("", {"type": "file", **facts})
        return JsonBatches(path, options, printer).print_chunk
    from stratalog.cli.dumping.text_batches import TextBatches

    return TextBatches(path, options, printer, complaints).print_chunk


def _tell_fault(printer: Printer, path: str, fault: Fault) -> None:
    facts = {"complaint": "unreadable", "path": path, "position": fault.position, "reason": fault.reason}
    printer.fail(f"{path} at byte {fault.position}: {fault.reason}", facts)


def _tell_end(printer: Printer, path: str, end: End) -> None:
    if not end.left_size:
        return
    text = f"Found {end.left_size} invalid bytes at the end of {PurePath(path).name}"
    facts = {"type": "invalid_bytes", "position": end.position, "size": end.left_size}
    printer.line(text, facts)
    if not end.is_torn:
        _tell_fault(printer, path, Fault(end.position, end.reason))
