"""Dumps one file after the other, each by its kind."""

from __future__ import annotations

from collections.abc import Iterable

from stratalog.cli.dumping.complaints import Complaints
from stratalog.cli.dumping.names import DumpedKind, DumpFile
from stratalog.cli.dumping.options import DumpOptions
from stratalog.cli.dumping.printer import Printer
from stratalog.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    DiskError,
    InvalidNameError,
    StratalogError,
)
from stratalog.files.reading import DiskReader

# In JSON, no line of type `file` is printed for these: a log prints its own, and the last three have none.
_WITHOUT_LINE = (
    DumpedKind.LOG,
    DumpedKind.CHECKPOINT,
    DumpedKind.UNKNOWN,
    DumpedKind.MISSING,
    DumpedKind.EMPTY,
)


def dump_files(disk: DiskReader, files: Iterable[DumpFile], options: DumpOptions, printer: Printer) -> None:
    """Print all files, then the complaints. A file that cannot be read does not stop the rest."""
    complaints = Complaints()
    for file in files:
        printer.begin(file.path)
        if printer.as_json and file.kind not in _WITHOUT_LINE:
            printer.line("", {"type": "file"})
        try:
            _dump(disk, file, options, printer, complaints)
        except (CorruptCheckpointError, CorruptIndexError, DiskError, InvalidNameError) as error:
            _tell(printer, file.path, error)
    complaints.tell(printer)


def _dump(
    disk: DiskReader, file: DumpFile, options: DumpOptions, printer: Printer, complaints: Complaints
) -> None:
    # Each kind imports what it needs, so that a dump of batches starts at once.
    match file.kind:
        case DumpedKind.LOG | DumpedKind.CHECKPOINT:
            from stratalog.cli.dumping.logs import dump_log

            dump_log(disk, file.path, file.kind, options, printer, complaints)
        case DumpedKind.OFFSET_INDEX:
            from stratalog.cli.dumping.indexes import dump_offset_index

            dump_offset_index(disk, file.path, options, printer, complaints)
        case DumpedKind.TIME_INDEX:
            from stratalog.cli.dumping.indexes import dump_time_index

            dump_time_index(disk, file.path, options, printer, complaints)
        case DumpedKind.TXN_INDEX:
            from stratalog.cli.dumping.indexes import dump_txn_index

            dump_txn_index(disk, file.path, printer)
        case DumpedKind.SNAPSHOT:
            from stratalog.cli.dumping.state import dump_snapshot

            dump_snapshot(disk, file.path, printer)
        case DumpedKind.MISSING:
            raise DiskError(file.path, "there is no such file or directory.")
        case DumpedKind.EMPTY:
            raise DiskError(file.path, "no file in this directory or below it can be dumped.")
        case DumpedKind.UNKNOWN:
            printer.complain(
                f"Ignoring unknown file {file.path}", {"complaint": "unknown_file", "path": file.path}
            )
        case _:
            from stratalog.cli.dumping.small_files import dump_small_file

            dump_small_file(disk, file.path, file.kind, printer)


def _tell(printer: Printer, path: str, error: StratalogError) -> None:
    facts = {"complaint": "unreadable", "path": path, "error": type(error).__name__, "reason": str(error)}
    printer.fail(f"stratalog: {error}", facts)
