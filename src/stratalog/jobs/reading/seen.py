"""What a reader of one split has seen so far, and which of the next batches it decodes."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import CorruptRecordError
from stratalog.jobs.reading.omissions import Gaps
from stratalog.jobs.reading.options import OnCorruption
from stratalog.jobs.reading.split import AbortedRange, Split, is_wrapper
from stratalog.records.batch import Attributes
from stratalog.records.kernels.walk import BatchTable, ascend
from stratalog.records.reader import BatchRow

logger = logging.getLogger(__name__)

_TRANSACTIONAL, _CONTROL = int(Attributes.TRANSACTIONAL), int(Attributes.CONTROL)


class SeenBatches:
    """Tracks the batches: how far the read has come, which batches were aborted, whether offsets ascend.

    No checksum covers a batch's offset: only the batches beside it show that the offset is wrong."""

    def __init__(self, split: Split, on_corruption: OnCorruption, gaps: Gaps) -> None:
        self.next_offset = split.start_offset
        self.last_offset = -1
        self.last_in_file = -1  # the last offset in the file that is read now
        self.path, self.position = split.path, 0  # the file and position of the buffer that is decoded now
        self._on_corruption = on_corruption
        self._gaps = gaps
        self._ranges = _by_producer(split.aborted)

    def __call__(self, headers: BatchTable) -> NDArray[np.bool_] | None:
        """Which batches to decode; None for all."""
        if not len(headers):
            return None
        if self._gaps.is_open:
            first = BatchRow._make(headers[0].item())
            if not is_wrapper(first):  # a wrapper must be decoded to learn its first offset
                self._gaps.seen(first.base_offset)
        keep = self._committed(headers) if self._ranges else None
        is_ascending, seen_offset = ascend(headers, self.last_in_file)
        if not is_ascending:
            keep = self._in_order(headers, keep)
        self.last_offset = self.last_in_file = int(seen_offset)
        self.next_offset = max(self.next_offset, self.last_offset + 1)
        return keep

    def _in_order(self, headers: BatchTable, keep: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Leaves out batches whose offsets are out of order.

        CorruptRecordError if damage is not to be skipped.
        """
        keep = np.ones(len(headers), np.bool_) if keep is None else keep
        ends = np.concatenate([[self.last_in_file], headers["last_offset"]])
        for row in np.flatnonzero(headers["base_offset"] <= ends[:-1]).tolist():
            error = CorruptRecordError(
                f"a batch begins with offset {headers[row]['base_offset']}, but the previous batch ends with "
                f"{ends[row]}: one of the two has a wrong offset. No checksum covers offsets.",
                position=int(headers[row]["position"]),
            )
            if self._on_corruption is OnCorruption.FAIL:
                raise error
            # If this batch fits after the batch before the previous one, the previous one's offset is too
            # high.
            dropped = row - 1 if row and headers[row]["base_offset"] > ends[row - 1] else row
            keep[dropped] = False
            self._skip(error, headers, dropped, int(ends[dropped]) + 1)
        return keep

    def _skip(self, error: CorruptRecordError, headers: BatchTable, row: int, first_offset: int) -> None:
        """Leave out one batch: the offsets of its records are between those of its neighbours."""
        position = self.position + int(headers[row]["position"])
        skipped = error.at(position=position, path=self.path)
        logger.warning("skipped damage: %s", skipped)
        after = int(headers[row + 1]["base_offset"]) if row + 1 < len(headers) else None
        self._gaps.skipped(skipped, first_offset, int(headers[row]["size"]), end_offset=after)

    def _committed(self, headers: BatchTable) -> NDArray[np.bool_] | None:
        """Which batches a read_committed reader may see; None for all. Kafka: CompletedFetch"""
        attributes = headers["attributes"]
        suspects = (attributes & (_TRANSACTIONAL | _CONTROL) == _TRANSACTIONAL) & (headers["magic"] == 2)
        if not suspects.any():
            return None
        keep = np.ones(len(headers), np.bool_)
        producers = headers["producer_id"]
        for producer_id in np.unique(producers[suspects]).tolist():
            ranges = self._ranges.get(producer_id)
            if ranges is None:
                continue
            rows = np.flatnonzero(suspects & (producers == producer_id))
            offsets = headers["base_offset"][rows]
            slots = np.searchsorted(ranges[0], offsets, "right") - 1
            keep[rows[(slots >= 0) & (offsets <= ranges[1][slots])]] = False
        return keep


def _by_producer(aborted: tuple[AbortedRange, ...]) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """First and last offsets of each producer's aborted transactions, ascending."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for producer_id, first, last in aborted:
        ranges.setdefault(producer_id, []).append((first, last))
    arrays = {producer_id: np.array(sorted(each), np.int64) for producer_id, each in ranges.items()}
    return {producer_id: (each[:, 0], each[:, 1]) for producer_id, each in arrays.items()}
