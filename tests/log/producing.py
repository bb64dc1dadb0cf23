"""A partition's producers for tests: one call for a batch or a marker, as the log would make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stratalog.files.disk import Disk
from stratalog.log.log import Log
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.entry import CompletedTxn, ProducerStateEntry, last_sequence_of
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from tests.log.model import NOW, Machine

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
# Snapshots that Kafka 4.3.1 wrote: of no producer, of two, of three.
EMPTY = bytes.fromhex("000148674bc700000000")
TWO = bytes.fromhex(
    "0001a5178d17000000020000000000000001000000000005000000000000000a0000000200000000000003e8ffffffffffffffff"
    "ffffffff0000000000000049000dffffffffffffffffffffffff0000000000000000000007d00000015b000000000000002a"
)


class Producers:
    """A state manager over a real directory, and the clock that it was given."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.now = NOW
        self._settings = settings
        self.state = self.reopened()

    def reopened(self) -> ProducerStateManager:
        """Another manager of the same directory, which knows only its snapshots."""
        return ProducerStateManager(Disk(), self.directory, clock=lambda: self.now, **self._settings)

    def append(
        self,
        producer_id: int,
        sequence: int,
        offset: int,
        *,
        epoch: int = 0,
        count: int = 1,
        timestamp: int | None = None,
        transactional: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> ProducerStateEntry:
        """Check and apply a batch of `count` records at `offset`, and move the map's end past it."""
        info = self.state.prepare_update(producer_id, origin)
        info.append_data(
            producer_epoch=epoch,
            base_sequence=sequence,
            last_sequence=last_sequence_of(sequence, count - 1),
            max_timestamp=self.now if timestamp is None else timestamp,
            first_offset=OffsetMetadata(offset),
            last_offset=offset + count - 1,
            is_transactional=transactional,
        )
        self.state.update(info)
        self.state.update_map_end_offset(offset + count)
        return self.state.producers[producer_id]

    def end(
        self,
        producer_id: int,
        offset: int,
        *,
        epoch: int = 0,
        abort: bool = False,
        coordinator_epoch: int = 0,
        timestamp: int | None = None,
        version: int = 0,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
        complete: bool = True,
    ) -> CompletedTxn | None:
        """Apply a marker at `offset`."""
        info = self.state.prepare_update(producer_id, origin)
        completed = info.append_marker(
            EndTxnMarker(ControlType.ABORT if abort else ControlType.COMMIT, coordinator_epoch),
            producer_epoch=epoch,
            offset=offset,
            timestamp=self.now if timestamp is None else timestamp,
            transaction_version=version,
        )
        self.state.update(info)
        if completed is not None and complete:
            self.state.complete_txn(completed)
        self.state.update_map_end_offset(offset + 1)
        return completed

    @property
    def first_unstable(self) -> int | None:
        mark = self.state.first_unstable_offset
        return None if mark is None else mark.offset

    @property
    def snapshot_names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


def snapshots(machine: Machine) -> list[int]:
    return [int(name.split(".")[0]) for name in machine.files(".snapshot")]


def last_sequence(log: Log, producer_id: int = 1) -> int:
    entry = log.producers.last_entry(producer_id)
    assert entry is not None
    return entry.last_sequence


def marker(
    offset: int, *, producer_id: int, epoch: int = 0, abort: bool = False, codec: Codec = Codec.NONE
) -> bytes:
    end = EndTxnMarker(ControlType.ABORT if abort else ControlType.COMMIT, 0)
    options = BatchOptions(
        codec=codec, producer_id=producer_id, producer_epoch=epoch, is_transactional=True, is_control=True
    )
    return build_batch([Record(offset, NOW + offset, end.key_bytes(), end.value_bytes())], options)
