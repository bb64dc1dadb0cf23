"""Histories of producers and transactions, told to Kafka's producer state and to ours."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import (
    StratalogError,
)
from stratalog.files.disk import Disk
from stratalog.log.append import analyze
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.analysis import analyze_producers, apply_changes
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.snapshot import parse_snapshot
from stratalog.records.batch import BatchHeader, set_base_offset
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.control import ControlType, EndTxnMarker
from tests.kafka.validation_oracle import HOUR, NOW, PRODUCER_ERRORS, ValidationOracle


def _marker(producer_id: int, *, epoch: int, coordinator_epoch: int, offset: int, commit: bool) -> bytes:
    marker = EndTxnMarker(ControlType.COMMIT if commit else ControlType.ABORT, coordinator_epoch)
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=epoch, is_transactional=True, is_control=True
    )
    timestamp = NOW - 1000
    return build_batch([Record(offset, timestamp, marker.key_bytes(), marker.value_bytes())], options)


class History:
    """Steps of a partition's producers, taken by Kafka and by us side by side."""

    def __init__(self, chance: random.Random, oracle: ValidationOracle, folder: Path) -> None:
        self._chance = chance
        self._oracle = oracle
        self.theirs_folder, self.ours_folder = folder / "theirs", folder / "ours"
        self.theirs_folder.mkdir(parents=True)
        self.ours_folder.mkdir()
        oracle.ask("producers", directory=str(self.theirs_folder), now=NOW, producerIdExpirationMs=HOUR)
        self.state = ProducerStateManager(
            Disk(), self.ours_folder, clock=lambda: NOW, producer_id_expiration_ms=HOUR
        )
        self.log_start = 0

    def step(self) -> str:
        """One random step, and a word for its result."""
        if self._chance.random() < 0.7:
            return self._append()
        end = self.state.map_end_offset
        offset = self._chance.randint(self.log_start, end)
        what = self._chance.choice(
            ["snapshot", "highWatermark", "logStart", "truncate", "truncateFully", "deleteBefore", "expire"]
        )
        now = NOW + self._chance.choice([0, HOUR // 2, 2 * HOUR])
        theirs = self._oracle.ask("do", what=what, offset=offset, start=self.log_start, now=now)
        self._act(what, offset, now)
        if what == "logStart":
            self.log_start = offset
        self.compare(theirs, what)
        return what

    def _act(self, what: str, offset: int, now: int) -> None:
        match what:
            case "snapshot":
                self.state.take_snapshot()
            case "highWatermark":
                self.state.on_high_watermark_updated(offset)
            case "logStart":
                self.state.on_log_start_offset_incremented(offset)
            case "truncate":
                self.state.truncate_and_reload(self.log_start, offset, now)
            case "truncateFully":
                self.state.truncate_fully_and_start_at(offset)
            case "deleteBefore":
                self.state.delete_snapshots_before(offset)
            case "expire":
                self.state.remove_expired_producers(now)

    def _append(self) -> str:
        origin = self._chance.choice(
            [AppendOrigin.CLIENT, AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION]
        )
        replicated = origin is AppendOrigin.REPLICATION
        version = -1 if replicated else self._chance.choice([0, 0, 1, 2])
        count = self._chance.choice([1, 3, 12]) if replicated else 1
        data, offset = b"", self.state.map_end_offset
        for _ in range(count):
            batch = self._batch(offset, origin)
            data += batch
            offset = BatchHeader.unpack(batch).last_offset + 1
        theirs = self._oracle.ask("append", hex=data.hex(), origin=origin.name, transactionVersion=version)
        info = analyze(data, origin=AppendOrigin.REPLICATION, max_message_bytes=None, leader_epoch=2**31 - 1)
        if "error" in theirs:
            with pytest.raises(StratalogError) as caught:
                analyze_producers(
                    self.state, info.data, info.batches, origin=origin, transaction_version=version
                )
            assert isinstance(caught.value, PRODUCER_ERRORS[theirs["error"]]), (theirs, caught.value)
            return str(theirs["error"])
        changes = analyze_producers(
            self.state, info.data, info.batches, origin=origin, transaction_version=version
        )
        assert (changes.duplicate is not None) == theirs.get("isDuplicate", False)
        if changes.duplicate is not None:
            return "duplicate"
        apply_changes(self.state, changes)
        ended = []
        for completed in changes.completed:
            ended.append([*completed, self.state.last_stable_offset(completed)])
            self.state.complete_txn(completed)
        self.state.update_map_end_offset(info.last_offset + 1)
        assert ended == theirs["completed"]
        self.compare(theirs, "append")
        return "appended"

    def _batch(self, offset: int, origin: AppendOrigin) -> bytes:
        chance = self._chance
        producer_id = chance.randrange(1, 4)
        entry = self.state.last_entry(producer_id)
        epoch = max(0, 0 if entry is None else entry.producer_epoch) + chance.choice([0] * 8 + [1, -1])
        epoch = max(epoch, 0)
        if chance.random() < 0.25 and origin is not AppendOrigin.CLIENT:
            coordinator_epoch = chance.choice([0, 1, 2])
            marker_epoch = epoch + chance.randrange(2)
            return _marker(
                producer_id,
                epoch=marker_epoch,
                coordinator_epoch=coordinator_epoch,
                offset=offset,
                commit=chance.random() < 0.5,
            )
        count = chance.choice([1, 1, 2, 7])
        last = -1 if entry is None or entry.producer_epoch != epoch else entry.last_sequence
        sequence = (last + 1 + chance.choice([0] * 12 + [1, 5])) & (2**31 - 1)
        if entry is not None and entry.batches and chance.random() < 0.15:
            known = chance.choice(entry.batches)
            sequence, count = known.first_sequence, known.offset_delta + 1
        if entry is None and chance.random() < 0.1:
            sequence = 2**31 - 1 - chance.randrange(3)
        is_open = entry is not None and entry.current_txn_first_offset is not None
        options = BatchOptions(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_open if chance.random() < 0.9 else not is_open,
        )
        records = [Record(i, NOW - chance.randrange(HOUR), b"k", b"v") for i in range(count)]
        batch = bytearray(build_batch(records, options))
        set_base_offset(batch, offset)
        return bytes(batch)

    def compare(self, theirs: dict[str, Any], what: str) -> None:
        unstable = self.state.first_unstable_offset
        undecided = self.state.first_undecided_offset
        latest = self.state.snapshots.latest
        ours = {
            "producers": [fields_of(entry) for _, entry in sorted(self.state.producers.items())],
            "firstUnstable": -1 if unstable is None else unstable.offset,
            "firstUndecided": -1 if undecided is None else undecided,
            "mapEnd": self.state.map_end_offset,
            "isEmpty": self.state.is_empty,
            "latestSnapshot": -1 if latest is None else latest,
        }
        assert ours == {name: theirs[name] for name in ours}, what

    def snapshots(self, folder: Path) -> dict[str, list[Any]]:
        return {
            path.name: sorted(map(fields_of, parse_snapshot(path.read_bytes()))) for path in folder.iterdir()
        }


def fields_of(entry: Any) -> list[Any]:
    first = entry.current_txn_first_offset
    return [
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        -1 if first is None else first,
        [list(batch) for batch in entry.batches],
    ]
