"""The producers and transactions of one segment, as a scan collects them batch by batch."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import CorruptRecordError, InvalidRecordError
from stratalog.limits import INT32_MAX
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.kernels import scan as kernel
from stratalog.records.kernels.memory import Bytes
from stratalog.records.reader import read_batches

_PRODUCERS, _EVENTS, _EPOCHS = 64, 1024, 64


class BatchMetadata(NamedTuple):
    """One batch that a producer has written. Kafka: BatchMetadata."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & INT32_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ScannedProducer(NamedTuple):
    """The state of a producer, from the batches of one segment alone.

    `batches` are at most the last five, all of the last epoch. If the producer's epoch before the segment was
    `first_epoch` and `epoch_changed` is not set, they are added to the batches known before the segment;
    otherwise they replace those batches. `coordinator_epoch` is -1 without a marker. `txn_first_offset` is
    the start, as far as this segment shows it, of the transaction that is open at its end. Without
    `ended_txn`, a transaction that was open before the segment is still open.
    """

    producer_id: int
    producer_epoch: int
    first_epoch: int
    epoch_changed: bool
    coordinator_epoch: int
    last_timestamp: int
    txn_first_offset: int | None
    ended_txn: bool
    batches: tuple[BatchMetadata, ...]


class TxnEventKind(IntEnum):
    """What happened to a producer's transaction."""

    STARTED = kernel.STARTED
    """The first transactional batch since the producer's last marker; it may continue an open transaction."""
    COMMITTED = kernel.COMMITTED
    ABORTED = kernel.ABORTED
    PLAIN = kernel.PLAIN
    """A batch outside of transactions: an error if a transaction is open, from this segment or an earlier
    one."""


class TxnEvent(NamedTuple):
    """An event at the base offset of its batch. The coordinator's epoch is -1 except for an end."""

    kind: TxnEventKind
    producer_id: int
    producer_epoch: int
    offset: int
    timestamp: int
    coordinator_epoch: int


class ProducerScan:
    """Collects producers, transaction events and leader epochs; only their number determines the memory."""

    def __init__(self) -> None:
        self._counts = np.array([0, 0, 0, -1], np.int64)
        self._slots = np.full(4 * _PRODUCERS, -1, np.int32)
        self._producers = np.zeros(_PRODUCERS, kernel.PRODUCER)
        self._recent = np.zeros((_PRODUCERS, kernel.KEPT_BATCHES, 4), np.int64)
        self._events = np.zeros(_EVENTS, kernel.EVENT)
        self._epochs = np.zeros((_EPOCHS, 2), np.int64)
        self._done_events: list[TxnEvent] = []
        self._emptied: dict[int, None] = {}  # an ordered set

    @property
    def tables(
        self,
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int32],
        kernel.ScanTable,
        NDArray[np.int64],
        kernel.ScanTable,
        NDArray[np.int64],
    ]:
        """The tables that a kernel fills. Call this again after `make_room`, which replaces some of them."""
        return self._counts, self._slots, self._producers, self._recent, self._events, self._epochs

    def producers(self) -> tuple[ScannedProducer, ...]:
        """The producers, in the order of their first batch."""
        found = []
        for row, batches in zip(self._producers[: self._counts[0]], self._recent, strict=False):
            first = int(row["txn_first_offset"])
            count = int(row["batches_count"])
            kept = [
                batches[number % kernel.KEPT_BATCHES].tolist()
                for number in range(max(0, count - kernel.KEPT_BATCHES), count)
            ]
            found.append(
                ScannedProducer(
                    producer_id=int(row["producer_id"]),
                    producer_epoch=int(row["producer_epoch"]),
                    first_epoch=int(row["first_epoch"]),
                    epoch_changed=bool(row["epoch_changed"]),
                    coordinator_epoch=int(row["coordinator_epoch"]),
                    last_timestamp=int(row["last_timestamp"]),
                    txn_first_offset=first if first >= 0 else None,
                    ended_txn=bool(row["ended_txn"]),
                    batches=tuple(BatchMetadata._make(batch) for batch in kept),
                )
            )
        return tuple(found)

    def events(self) -> tuple[TxnEvent, ...]:
        self._empty_events()
        return tuple(self._done_events)

    def emptied_markers(self) -> tuple[int, ...]:
        """The producers of markers that compaction has emptied: Kafka learns their ids, but no epochs."""
        return tuple(self._emptied)

    def epoch_starts(self) -> tuple[tuple[int, int], ...]:
        """(leader epoch, offset of its first batch), each epoch above those before it."""
        return tuple((epoch, offset) for epoch, offset in self._epochs[: self._counts[2]].tolist())

    def add_marker(self, data: Bytes, batch: np.record) -> None:
        """Add a marker in the slow way, for example one that compaction has given a delete horizon.

        A control batch with a producer id must be a transaction marker. If it is not, this is an
        InvalidRecordError with the position of the batch in `data`.
        """
        start = int(batch["position"])
        try:
            one = next(read_batches(data, start=start, end=start + int(batch["size"]), check_crc=False))
            record = next(iter(one), None)
            if record is None:
                # Compaction left a batch without its record: it only shows that there is such a producer.
                self._emptied[int(batch["producer_id"])] = None
                return
            marker = EndTxnMarker.parse(record.key, record.value)
        except CorruptRecordError as error:
            raise InvalidRecordError(error.reason, position=start) from error
        kernel.end_txn(
            batch,
            marker.control_type is ControlType.COMMIT,
            marker.coordinator_epoch,
            record.timestamp,
            self._counts,
            self._slots,
            self._producers,
            self._events,
        )

    def make_room(self) -> None:
        """Make room for another producer, event or epoch, whichever did not fit."""
        self._empty_events()
        producers, _, epochs, _ = self._counts.tolist()
        if producers == len(self._producers):
            self._producers = np.concatenate([self._producers, np.zeros_like(self._producers)])
            self._recent = np.concatenate([self._recent, np.zeros_like(self._recent)])
            self._slots = np.empty(4 * len(self._producers), np.int32)
            kernel.fill_slots(self._producers, producers, self._slots)
        if epochs == len(self._epochs):
            self._epochs = np.concatenate([self._epochs, np.zeros_like(self._epochs)])

    def _empty_events(self) -> None:
        count = int(self._counts[1])
        self._done_events += [
            TxnEvent(TxnEventKind(kind), producer_id, epoch, offset, timestamp, coordinator_epoch)
            for producer_id, offset, timestamp, coordinator_epoch, epoch, kind in self._events[
                :count
            ].tolist()
        ]
        self._counts[1] = 0
