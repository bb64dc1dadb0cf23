"""Producer state: which batch each producer wrote last, and which transactions are open.

This state makes a producer idempotent (a batch that is sent twice is written once, a gap is refused), fences
off an old instance of a producer, and determines the last stable offset. A transaction is ongoing until its
marker is in the log, then unreplicated until the high watermark has passed the marker; only then may a
read_committed reader go on.

The whole state can be rebuilt from the log by replaying every batch. Snapshots (`snapshot.py`) avoid that.
The state in memory covers the log up to `map_end_offset`. A snapshot of it is written when a segment is
rolled and when the log is closed.

The state is changed under the lock of the log; `has_late_transaction` and `len(producers)` need no lock.
`analysis.py` finds the changes of a set of batches. Kafka: ProducerStateManager
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping

from stratalog.clock import Clock
from stratalog.errors import CorruptSnapshotError, UsageError
from stratalog.files.reading import DiskReader
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.append_info import ProducerAppendInfo
from stratalog.log.producers.entry import CompletedTxn, ProducerStateEntry, TxnMetadata
from stratalog.log.producers.snapshot_files import SnapshotFiles
from stratalog.log.producers.transactions import Transactions
from stratalog.log.producers.verification import VerificationEntry
from stratalog.records.batch import NO_PRODUCER_ID

logger = logging.getLogger(__name__)

DEFAULT_PRODUCER_ID_EXPIRATION_MS = 86_400_000
DEFAULT_TRANSACTION_MAX_TIMEOUT_MS = 900_000
# A transaction is late if it is still open this long after the longest timeout: its coordinator needs time.
LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000


class ProducerStateManager:
    """The producers of one partition. `producers` has their entries by id; only methods change them."""

    def __init__(
        self,
        disk: DiskReader,
        directory: str | os.PathLike[str],
        *,
        clock: Clock,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        transaction_max_timeout_ms: int = DEFAULT_TRANSACTION_MAX_TIMEOUT_MS,
        verify_transactions: bool = False,
        snapshot_offsets: Iterable[int] | None = None,
    ) -> None:
        self.producers: dict[int, ProducerStateEntry] = {}
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.verify_transactions = verify_transactions
        self.map_end_offset = 0
        self.snapshots = SnapshotFiles(disk, directory, snapshot_offsets)
        self._last_snapshot_offset = 0
        self._ongoing = Transactions()
        self._unreplicated = Transactions()
        self._verifications: dict[int, VerificationEntry] = {}
        self._clock = clock
        self._late_after_ms = transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        # The last timestamp of the oldest open transaction. A single number, because it is read without the
        # lock.
        self._oldest_txn_last_timestamp = -1

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self._unreplicated

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        return self.producers.get(producer_id)

    # Appending

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """A staged copy of this producer's state, to append to and then to pass to `update`."""
        current = self.producers.get(producer_id) or ProducerStateEntry(producer_id)
        return ProducerAppendInfo(current, origin, self._verifications.get(producer_id))

    def update(self, info: ProducerAppendInfo) -> None:
        """Apply the staged state of one producer."""
        if info.producer_id == NO_PRODUCER_ID:
            raise UsageError("-1 means no producer id: there is no state to keep for it.")
        current = self.producers.get(info.producer_id)
        if current is None:
            self.producers[info.producer_id] = info.updated
        else:
            current.update(info.updated)
        for transaction in info.started:
            self._ongoing.put(transaction)
        if info.is_transactional:
            # Once a record or a marker is in the log, there is nothing left to guard.
            self.clear_verification(info.producer_id)
        self._note_oldest_txn()

    def update_map_end_offset(self, offset: int) -> None:
        """Record that the state now covers everything below `offset`."""
        self.map_end_offset = offset

    # Transactions

    @property
    def has_transactions(self) -> bool:
        """Whether any transaction is open, or has its marker above the high watermark."""
        return self._ongoing.first is not None or self._unreplicated.first is not None

    @property
    def first_unstable_offset(self) -> OffsetMetadata | None:
        """The first record of a transaction that is open, or whose marker is above the high watermark."""
        undecided, unreplicated = self._ongoing.first, self._unreplicated.first
        if undecided is None or unreplicated is None:
            first = undecided or unreplicated
            return None if first is None else first.first_offset
        return min(undecided.first_offset, unreplicated.first_offset, key=lambda mark: mark.offset)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first record of a transaction that is open."""
        first = self._ongoing.first
        return None if first is None else first.first_offset.offset

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset once this transaction has ended, for its entry in the transaction index."""
        for transaction in self._ongoing.ascending():
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset.offset
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Complete a transaction; its marker is in the log and, if it aborts, in the transaction index."""
        transaction = self._ongoing.pop(completed.first_offset)
        if transaction is None:
            raise UsageError(f"{completed} was never started here, so it cannot be completed.")
        self._unreplicated.put(transaction._replace(last_offset=completed.last_offset))
        self._note_oldest_txn()

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Drop transactions whose marker is below the new high watermark."""
        self._unreplicated.drop_ended_before(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Called when records were deleted; the state of their producers stays."""
        self._unreplicated.drop_ended_before(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.snapshots.latest
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest open transaction should have been ended by its coordinator long ago."""
        last_timestamp = self._oldest_txn_last_timestamp
        return last_timestamp > 0 and now_ms - last_timestamp > self._late_after_ms

    # Verification

    def start_verification(
        self, producer_id: int, *, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> VerificationEntry:
        """The current verification of this producer; begins one if necessary."""
        entry = self._verifications.get(producer_id)
        if entry is None:
            entry = VerificationEntry(self._clock(), sequence, epoch, supports_epoch_bump=supports_epoch_bump)
            self._verifications[producer_id] = entry
        entry.see(sequence, epoch)
        return entry

    def verification(self, producer_id: int) -> VerificationEntry | None:
        return self._verifications.get(producer_id)

    def clear_verification(self, producer_id: int) -> None:
        self._verifications.pop(producer_id, None)

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset is not None
            and entry.producer_epoch == producer_epoch
        )

    # Expiry, truncation, snapshots

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers silent for producer.id.expiration.ms, except those with an open transaction."""
        expired = [entry.producer_id for entry in self.producers.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        self._verifications = {
            producer_id: entry
            for producer_id, entry in self._verifications.items()
            if now_ms - entry.timestamp < self.producer_id_expiration_ms
        }

    def load_producer_entry(self, entry: ProducerStateEntry) -> None:
        """Add an entry from a snapshot."""
        self.producers[entry.producer_id] = entry
        if entry.current_txn_first_offset is not None:
            first_offset = OffsetMetadata(entry.current_txn_first_offset)
            self._ongoing.put(TxnMetadata(entry.producer_id, first_offset))

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to the newest snapshot within (log_start_offset, log_end_offset]; delete those outside.

        The caller replays the log from `map_end_offset` on. The state stays if it ends at log_end_offset.
        """
        for offset in [*self.snapshots.offsets]:
            if not log_start_offset < offset <= log_end_offset:
                self.snapshots.delete(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._clear()
        self._load_newest_snapshot(log_start_offset, now_ms)
        self._note_oldest_txn()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything, snapshots included."""
        self._clear()
        for snapshot in [*self.snapshots.offsets]:
            self.snapshots.delete(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write a snapshot of the state at `map_end_offset`; None if there is one already.

        Returns the path, for a caller that syncs the file later.
        """
        if self.map_end_offset <= self._last_snapshot_offset:
            return None
        path = self.snapshots.write(self.map_end_offset, self.producers.values(), sync=sync)
        self._last_snapshot_offset = self.map_end_offset
        return path

    def take_over(self, known: Mapping[int, ProducerStateEntry]) -> None:
        """Add the producer state of another copy of the same log; if the states differ, write a snapshot.

        For a producer whose records were deleted, only this state distinguishes a retry from a new batch.
        """
        if known == self.producers:
            return
        for producer_id, entry in known.items():
            current = self.producers.get(producer_id)
            begun = None if current is None else current.current_txn_first_offset
            # If the transaction's first records were deleted in this copy, it seems to begin later here.
            if begun is not None and begun != entry.current_txn_first_offset:
                self._ongoing.pop(begun)
            if begun is not None and begun == entry.current_txn_first_offset:
                self.producers[producer_id] = entry.copy()
            else:
                self.load_producer_entry(entry.copy())
        self._note_oldest_txn()
        self.snapshots.write(self.map_end_offset, self.producers.values(), sync=True)
        self._last_snapshot_offset = self.map_end_offset

    def delete_snapshots_before(self, offset: int) -> None:
        for snapshot in [*self.snapshots.offsets]:
            if snapshot < offset:
                self.snapshots.delete(snapshot)

    def fetch_snapshot(self, offset: int) -> str | None:
        """The path of the snapshot at exactly this offset."""
        return self.snapshots.path(offset) if offset in self.snapshots else None

    def _load_newest_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        while (offset := self.snapshots.latest) is not None:
            try:
                entries = self.snapshots.read(offset)
            except CorruptSnapshotError as error:
                logger.warning("%s It is deleted, and the snapshot before it is used.", error)
                self.snapshots.delete(offset)
                continue
            for entry in entries:
                if not self._is_expired(entry, now_ms):
                    self.load_producer_entry(entry)
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset

    def _clear(self) -> None:
        self.producers.clear()
        self._ongoing = Transactions()
        self._unreplicated = Transactions()
        self._note_oldest_txn()

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        is_silent = now_ms - entry.last_timestamp >= self.producer_id_expiration_ms
        return is_silent and entry.current_txn_first_offset is None

    def _note_oldest_txn(self) -> None:
        oldest = self._ongoing.first
        entry = None if oldest is None else self.producers.get(oldest.producer_id)
        self._oldest_txn_last_timestamp = -1 if entry is None else entry.last_timestamp
