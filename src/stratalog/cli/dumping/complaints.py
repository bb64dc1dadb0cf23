"""The complaints of a dump, printed after the last file, as Kafka's tool does.

The words are the tool's. The files come in the order in which they were dumped; the tool prints them in the
order of a Java hash map. Kafka: DumpLogSegments.execute, TimeIndexDumpErrors
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stratalog.cli.dumping.printer import Printer
from stratalog.files.paths import join_path

Pairs = defaultdict[str, list[tuple[int, int]]]


class Complaints:
    """Pairs of numbers that contradict each other, by file."""

    def __init__(self) -> None:
        self._offset_mismatches: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._timestamp_mismatches: Pairs = defaultdict(list)
        self._descending_timestamps: Pairs = defaultdict(list)
        self._unknown_offsets: Pairs = defaultdict(list)
        # Arrays, because a compacted segment has a gap after nearly every record, and pairs of Python
        # integers would take ten times the memory.
        self._gaps: defaultdict[str, list[NDArray[np.int64]]] = defaultdict(list)

    def offset_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """An .index entry leads to a batch with another last offset."""
        self._offset_mismatches[_absolute(path)][index_offset] = log_offset

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """The batch of a .timeindex entry has another largest timestamp."""
        self._timestamp_mismatches[_absolute(path)].append((index_timestamp, log_timestamp))

    def descending_timestamp(self, path: str, index_timestamp: int, previous_timestamp: int) -> None:
        """A .timeindex entry is not later than the previous entry."""
        self._descending_timestamps[_absolute(path)].append((index_timestamp, previous_timestamp))

    def unknown_offset(self, path: str, index_offset: int, log_offset: int) -> None:
        """No batch ends with the offset of a .timeindex entry."""
        self._unknown_offsets[_absolute(path)].append((index_offset, log_offset))

    def gaps(self, path: str, pairs: NDArray[np.int64]) -> None:
        """Neighbouring records whose offsets do not follow each other: rows of both offsets."""
        self._gaps[_absolute(path)].append(pairs.copy())

    def tell(self, printer: Printer) -> None:
        """Print all complaints."""
        for path, mismatches in self._offset_mismatches.items():
            pairs = sorted(mismatches.items(), reverse=True)
            _tell(printer, path, "offset_mismatch", "Mismatches in :", _INDEX_OFFSET, pairs)
        for path, pairs in self._timestamp_mismatches.items():
            _tell(printer, path, "timestamp_mismatch", "Found timestamp mismatch in :", _TIMESTAMP, pairs)
        for path, pairs in self._descending_timestamps.items():
            head = "Found out of order timestamp in :"
            _tell(printer, path, "timestamp_out_of_order", head, _PREVIOUS_TIMESTAMP, pairs)
        for path, pairs in self._unknown_offsets.items():
            head = "The following indexed offsets are not found in :"
            _tell(printer, path, "offset_not_found", head, _FOUND_OFFSET, pairs)
        for path, gaps in self._gaps.items():
            told = _last_of_each(np.concatenate(gaps))
            _tell(printer, path, "gap", "Non-consecutive offsets in ", _GAP, told)


# The text of a pair, and the names of its numbers.
_Form = tuple[str, str, str]
_INDEX_OFFSET = ("  Index offset: {}, log offset: {}", "index_offset", "log_offset")
_TIMESTAMP = ("  Index timestamp: {}, log timestamp: {}", "index_timestamp", "log_timestamp")
_PREVIOUS_TIMESTAMP = (
    "  Index timestamp: {}, Previously indexed timestamp: {}",
    "index_timestamp",
    "previous_timestamp",
)
_FOUND_OFFSET = ("Indexed offset: {}, found log offset: {}", "index_offset", "log_offset")
_GAP = ("  {} is followed by {}", "offset", "next_offset")


def _tell(
    printer: Printer, path: str, complaint: str, head: str, form: _Form, pairs: Iterable[tuple[int, int]]
) -> None:
    text, first_name, second_name = form
    if not printer.as_json:
        printer.complain(f"{head}{path}", {})
    for first, second in pairs:
        facts = {"complaint": complaint, "path": path, first_name: first, second_name: second}
        printer.complain(text.format(first, second), facts)


def _last_of_each(pairs: NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    """The pairs in ascending order; of those with the same first number only the last, as in a map."""
    ordered = pairs[np.argsort(pairs[:, 0], kind="stable")]
    is_last = np.append(ordered[1:, 0] != ordered[:-1, 0], True)
    return ((int(first), int(second)) for first, second in ordered[is_last])


def _absolute(path: str) -> str:
    """Like Java's getAbsolutePath: follows no link and keeps every `..`."""
    return path if Path(path).is_absolute() else join_path(Path.cwd(), path)
