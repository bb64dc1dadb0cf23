"""Batches and records as the lines of Kafka's tool. The kernels write all lines that need no decoder."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stratalog.buffers import aligned_buffer
from stratalog.cli.dumping.complaints import Complaints
from stratalog.cli.dumping.contents import ContentsWriter, bytes_at
from stratalog.cli.dumping.options import DumpOptions
from stratalog.cli.dumping.printer import Printer
from stratalog.cli.dumping.runs import Fault, RecordReader, Records
from stratalog.errors import InvalidRecordError
from stratalog.records.batch import Attributes
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels import text
from stratalog.records.kernels.decode import RecordTable
from stratalog.segment.headers import BatchChunk

OUT_SIZE = 1 << 20
GAPS = 1024
_NO_ROWS = np.zeros(0, decoding.RECORD)
_BEFORE_FIRST = -1  # as in Kafka's tool, which reports a gap in each file that does not start at 0


class TextBatches:
    """Prints the batches of one file. Offsets that are missing between records become complaints."""

    def __init__(self, path: str, options: DumpOptions, printer: Printer, complaints: Complaints) -> None:
        self._path = path
        self._options = options
        self._printer = printer
        self._complaints = complaints
        self._contents = ContentsWriter(options)
        self._reader = RecordReader() if options.deep else None
        self._out = aligned_buffer(OUT_SIZE)
        self._gaps = np.zeros((GAPS, 2), np.int64)
        self._parts = np.zeros(text.PARTS_SHAPE, np.int64)
        self._flags = _flags(options)
        self._due = 0
        # If a dump starts in the middle of a file, the record before is not known.
        self._last_offset = text.NO_OFFSET if options.position else _BEFORE_FIRST

    def print_chunk(self, chunk: BatchChunk) -> Iterator[Fault]:
        """Print the chunk's batches.

        Yields the fault of each unreadable batch as soon as everything up to that batch is printed.
        """
        if self._reader is None:
            count = len(chunk.headers)
            self._write(Records(chunk.data, chunk.headers, count, _NO_ROWS, True), chunk.position)
            return
        for records in self._reader.read(chunk):
            yield from self._write(records, chunk.position)
            if records.fault is not None:
                yield records.fault

    def _write(self, records: Records, position: int) -> list[Fault]:
        if records.is_first:
            self._due = 0
        faults = []
        row, why = 0, text.FULL
        while why != text.DONE:
            row, why = self._write_some(records, row, self._flags, position)
            if why == text.BY_HAND:
                faults += self._write_by_hand(records, row, position)
                row += 1
        return faults

    def _write_some(self, records: Records, row: int, flags: int, position: int) -> tuple[int, int]:
        """Print from this row on until the buffer is full; returns (next row, why it stopped)."""
        used, gaps_count, why, at = text.write_lines(
            records.data,
            records.batches,
            records.batches_end,
            records.rows,
            flags,
            position,
            (row, self._due, self._last_offset),
            self._out,
            self._gaps,
            self._parts,
        )
        self._printer.write(self._out[:used].data)
        if gaps_count:
            self._complaints.gaps(self._path, self._gaps[:gaps_count])
        row, self._due, self._last_offset = at
        if why == text.FULL and used == 0 and gaps_count == 0:
            self._out = aligned_buffer(_needed_size(records.rows, row))
        return row, why

    def _write_by_hand(self, records: Records, row: int, position: int) -> list[Fault]:
        """The line of one record: the kernel writes its start, and a decoder the rest."""
        record = records.rows[row]
        alone = records._replace(rows=records.rows[row : row + 1], batches_end=0)
        next_row, flags = 0, (self._flags & text.METADATA) | text.OPEN
        while next_row == 0:
            next_row, _ = self._write_some(alone, 0, flags, position)
        batch = records.batches[int(record["batch"])]
        key = bytes_at(records.data, record["key_position"], record["key_size"])
        value = bytes_at(records.data, record["value_position"], record["value_size"])
        is_control = bool(batch["attributes"] & Attributes.CONTROL) and batch["magic"] == 2
        faults = []
        try:
            added = self._contents.added(is_control, int(record["offset"]), key, value)
        except InvalidRecordError as error:
            added = ""
            faults.append(Fault(position + int(batch["position"]), error.reason))
        self._printer.write(f"{added}\n".encode("utf-8", "replace"))
        return faults


def _flags(options: DumpOptions) -> int:
    flags = 0
    if not options.skip_record_metadata:
        flags |= text.METADATA | text.CONTROL_BY_HAND
    if options.print_data:
        flags |= text.ALL_BY_HAND if options.decodes else text.CONTENTS
    return flags


def _needed_size(rows: RecordTable, row: int) -> int:
    return int(text.needed_size(rows[row])) if row < len(rows) else text.LONGEST_BATCH
