"""The text files of a log directory, which Kafka's tool cannot dump: one line for each entry.

A file that cannot be read raises the library's error for it; reading changes nothing.
"""

from __future__ import annotations

import re

from stratalog.cli.dumping.names import DumpedKind
from stratalog.cli.dumping.printer import Printer
from stratalog.directory.clean_shutdown import parse_clean_shutdown
from stratalog.files.reading import DiskReader
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.epochs import read_epochs
from stratalog.records.utf8 import decode_text

# A key ends with a colon in partition.metadata, with an equals sign in meta.properties.
_PROPERTY = re.compile(r"\s*([^\s:=#!][^\s:=]*)\s*[:=]\s*(.*)")


def dump_small_file(disk: DiskReader, path: str, kind: DumpedKind, printer: Printer) -> None:
    """Print the entries of a checkpoint, a properties file or a clean-shutdown file."""
    size = disk.size(path)
    if kind is DumpedKind.OFFSETS:
        _dump_offsets(disk, path, printer)
    elif kind is DumpedKind.EPOCHS:
        _dump_epochs(disk, path, printer)
    elif kind is DumpedKind.PROPERTIES:
        _dump_properties(disk.read_at(path, size, 0), printer)
    else:
        epoch = parse_clean_shutdown(disk.read_at(path, size, 0)).broker_epoch
        text = "closed cleanly" if epoch is None else f"closed cleanly brokerEpoch: {epoch}"
        printer.line(text, {"type": "clean_shutdown", "broker_epoch": epoch})


def _dump_offsets(disk: DiskReader, path: str, printer: Printer) -> None:
    for (topic, partition), offset in OffsetCheckpointFile(disk, path).read().items():
        facts = {"type": "partition_offset", "topic": topic, "partition": partition, "offset": offset}
        printer.line(f"topic: {topic} partition: {partition} offset: {offset}", facts)


def _dump_epochs(disk: DiskReader, path: str, printer: Printer) -> None:
    for entry in read_epochs(disk, path):
        facts = {"type": "leader_epoch", "epoch": entry.epoch, "start_offset": entry.start_offset}
        printer.line(f"epoch: {entry.epoch} startOffset: {entry.start_offset}", facts)


def _dump_properties(data: bytes, printer: Printer) -> None:
    for line in decode_text(data).splitlines():
        if match := _PROPERTY.fullmatch(line):
            key, value = match[1], match[2]
            printer.line(f"{key}: {value}", {"type": "property", "key": key, "value": value})
