"""A whole log on a disk that loses its power at every step of its life: two closes, and appends between.

Whatever the machine finds when it starts again: with the mark of a clean close the log opens to exactly what
was closed. Without it the log is recovered, to what was appended but for what no flush has vouched for; where
that is what it was after one of its appends, to exactly that. What is expected comes from the list of what
was appended, never from a log. The lock of the directory is a real one, as locks are not the disk's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from stratalog import PartitionLog, open_log
from stratalog.errors import DiskError
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.records.build import Record
from stratalog.records.control import ControlType, EndTxnMarker
from tests import naive, profile
from tests.log.model import (
    NOW,
    LogModel,
    ManualClock,
    ManualScheduler,
    ModelBatch,
    append_marker,
    batch,
    produced,
    read_all,
)
from tests.records.strategies import plain

MARK = ".kafka_cleanshutdown"
CONFIG = {"index.interval.bytes": 100, "segment.index.bytes": 240}
LAST_MS = 20  # a time after all records, counted from the first
IDEMPOTENT, COMMITTING, ABORTING, UNDECIDED = 1, 2, 3, 4


class Producer(NamedTuple):
    """What the log must know of a producer."""

    epoch: int
    last_sequence: int
    last_offset: int
    open_since: int | None


@dataclass
class State:
    """A log, by the simplest means."""

    model: LogModel = field(default_factory=LogModel)
    producers: dict[int, Producer] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def copy(self) -> State:
        model = LogModel(self.model.start, self.model.end, [*self.model.batches])
        return State(model, {**self.producers}, [*self.epochs])


@dataclass
class Told:
    """What a caller knows: the log after each append that was begun, the last that has returned being `now`;
    what flushes vouched for; the last close begun."""

    states: list[State] = field(default_factory=lambda: [State()])
    now: State = field(default_factory=State)
    flushed: list[Record] = field(default_factory=list)
    closing: State | None = None


class Writer:
    """Appends to a log and to the model of it."""

    def __init__(self, log: PartitionLog, told: Told) -> None:
        self.log = log
        self.told = told
        self.leader_epoch = told.now.epochs[-1][0] if told.now.epochs else 0

    def plain(self, *values: bytes) -> None:
        self._append(batch(*values, timestamp=self._time()), values)

    def of(self, producer_id: int, *values: bytes, transactional: bool = False) -> None:
        before = self.told.now.producers.get(producer_id, Producer(0, -1, -1, None))
        first, sequence = self.told.now.model.end, before.last_sequence + 1
        data = produced(producer_id, sequence, *values, transactional=transactional, timestamp=self._time())
        since = first if transactional and before.open_since is None else before.open_since
        after = Producer(0, before.last_sequence + len(values), first + len(values) - 1, since)
        self._append(data, values, producer_id, transactional=transactional, producer=after)

    def end(self, producer_id: int, kind: ControlType) -> None:
        """A marker: it leaves the producer's batches as they were, and closes its transaction."""
        end = EndTxnMarker(kind, 0)
        record = Record(self.told.now.model.end, self._time(), end.key_bytes(), end.value_bytes())
        after = self.told.now.producers[producer_id]._replace(open_since=None)
        state = self._after(ModelBatch(records=(record,), producer_id=producer_id, ends=kind), after)
        append_marker(self.log.log, producer_id, kind, leader_epoch=self.leader_epoch, timestamp=self._time())
        self.told.now = state

    def flush(self) -> None:
        wanted = self.told.now.model.records(markers=True)
        self.log.flush()
        self.told.flushed = wanted

    def close(self) -> None:
        self.told.closing = self.told.now.copy()
        self.log.close()
        self.told.flushed = self.told.now.model.records(markers=True)

    def _append(
        self,
        data: bytes,
        values: tuple[bytes, ...],
        producer_id: int = -1,
        *,
        transactional: bool = False,
        producer: Producer | None = None,
    ) -> None:
        first = self.told.now.model.end
        rows = tuple(Record(first + i, self._time(), None, value) for i, value in enumerate(values))
        batch = ModelBatch(records=rows, producer_id=producer_id, is_transactional=transactional)
        state = self._after(batch, producer)
        self.log.log.append_as_leader(data, leader_epoch=self.leader_epoch)
        self.told.now = state

    def _after(self, batch: ModelBatch, producer: Producer | None) -> State:
        """The log with this batch, noted before it is appended: a power cut may come when it is written."""
        state = self.told.now.copy()
        if not state.epochs or state.epochs[-1][0] != self.leader_epoch:
            state.epochs.append((self.leader_epoch, batch.first_offset))
        state.model.append(batch)
        if producer is not None:
            state.producers[batch.producer_id] = producer
        self.told.states.append(state)
        return state

    def _time(self) -> int:
        """Each batch has its own, so that a time entry that is lost is missed."""
        return NOW + self.told.now.model.end


@contextmanager
def opened(
    directory: Path, disk: SimulatedDisk, *, create: bool = False, scheduler: ManualScheduler | None = None
) -> Iterator[PartitionLog]:
    """The log, which is dropped at the end together with its lock, whatever state the machine is in."""
    clock = ManualClock()
    scheduler = scheduler or ManualScheduler(clock)
    log = open_log(directory, create=create, config=CONFIG, disk=disk, clock=clock, scheduler=scheduler)
    try:
        yield log
    finally:
        log.close()


def live(directory: Path, disk: SimulatedDisk, told: Told) -> None:
    """Three segments with a transaction across two of them, a close; then more of all of it, and a close."""
    scheduler = ManualScheduler(ManualClock())
    with opened(directory, disk, create=True, scheduler=scheduler) as log:
        writer = Writer(log, told)
        writer.plain(b"a" * 120, b"b")
        writer.of(IDEMPOTENT, b"c", b"d" * 600)  # more than a sector, so that it can be torn
        writer.of(COMMITTING, b"e", transactional=True)
        writer.flush()
        writer.of(ABORTING, b"f" * 90, transactional=True)
        log.log.roll()
        writer.of(COMMITTING, b"g", transactional=True)
        writer.end(COMMITTING, ControlType.COMMIT)
        writer.leader_epoch = 3
        writer.end(ABORTING, ControlType.ABORT)
        scheduler.run_due()  # the first segment is flushed, the second not
        log.log.roll()
        writer.of(UNDECIDED, b"h", transactional=True)
        writer.plain(b"i" * 200)
        writer.close()
    with opened(directory, disk) as log:
        writer = Writer(log, told)
        writer.of(IDEMPOTENT, b"j")
        writer.flush()
        writer.end(UNDECIDED, ControlType.COMMIT)
        log.log.roll()
        writer.of(ABORTING, b"k", transactional=True)
        writer.plain(b"l" * 700)
        writer.close()


def new_disk(directory: Path) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories(str(directory.parent))
    disk.sync_everything()
    return disk


def state_of(log: PartitionLog) -> dict[str, object]:
    core = log.log
    return {
        "marks": (log.start_offset, log.end_offset, log.high_watermark, log.last_stable_offset),
        "records": read_all(core),
        "by time": [log.offset_for_time(NOW + ms) for ms in range(LAST_MS)],
        "committed": [(r.offset, r.value) for r in log.records(isolation="read_committed")],
        "producers": {
            producer_id: Producer(
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_data_offset,
                entry.current_txn_first_offset,
            )
            for producer_id, entry in core.producers.producers.items()
        },
        "epochs": [(entry.epoch, entry.start_offset) for entry in core.epochs.entries],
    }


def expected(state: State) -> dict[str, object]:
    model = state.model
    return {
        "marks": (model.start, model.end, model.end, model.last_stable_offset()),
        "records": model.records(markers=True),
        "by time": [
            None if record is None else record.offset
            for record in (model.first_not_before(NOW + ms) for ms in range(LAST_MS))
        ],
        "committed": [(record.offset, record.value) for record in model.committed()],
        "producers": state.producers,
        "epochs": state.epochs,
    }


def check_after_crash(directory: Path, found: SimulatedDisk, told: Told) -> str:
    """What must hold on a disk that a power cut left; returns what came of opening it."""
    logs = {name: data for name, data in found.contents().items() if name.endswith(".log")}
    on_disk = {record for data in logs.values() for record in whole_records(data)}
    assert {(r.offset, r.value) for r in told.flushed} <= on_disk
    if f"{directory}/{MARK}" in found.contents():
        assert told.closing is not None
        with opened(directory, found) as log:
            assert state_of(log) == expected(told.closing)
            assert log.append(b"next") == told.closing.model.end
        return "as it was closed"
    with opened(directory, found, create=True) as log:
        read = read_all(log.log)
        # One file may have lost its last batch while the next file, begun after it, is there.
        assert read == [r for r in told.states[-1].model.records(markers=True) if r in read]
        assert read[: len(told.flushed)] == told.flushed
        for state in told.states:
            if state.model.records(markers=True) == read and state.model.end == log.end_offset:
                assert state_of(log) == expected(state)
    return "recovered" if logs else "empty"


def whole_records(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    """(offset, value) of the records in the whole and valid batches that a file begins with."""
    batches, end, _ = naive.walk(data)
    for each in batches:
        if not each.valid:
            end = each.position
            break
    for record in naive.decode(data[:end], plain):
        yield record.offset, record.value


def chosen_steps(count: int) -> list[int]:
    """Every step in deep, otherwise a seeded part; the last one, after the clean-shutdown file, always."""
    steps = range(1, count + 1)
    wanted = profile.examples(count, quick=6, ci=max(6, count // 20))
    some = random.Random(4).sample(steps, min(count, wanted))
    return sorted({*some, count})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the lock is; everything else is on the simulated disk, under the same name."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def test_a_life_without_a_power_cut_is_as_the_model_says(directory: Path) -> None:
    disk, told = new_disk(directory), Told()

    live(directory, disk, told)

    with opened(directory, disk) as log:
        assert state_of(log) == expected(told.now)
        assert log.metrics()["NumLogSegments"] == 4


def test_a_power_cut_at_any_step_loses_nothing_that_was_flushed_and_opens_to_what_it_was(
    directory: Path,
) -> None:
    disk = new_disk(directory)
    before = disk.steps
    live(directory, disk, Told())
    outcomes: set[str] = set()
    for step in chosen_steps(disk.steps - before):
        cut, told = new_disk(directory), Told()
        cut.crash_at(before + step)
        with pytest.raises((PowerCut, DiskError)):
            live(directory, cut, told)

        outcomes |= {check_after_crash(directory, found, told) for found in cut.crash()}

    assert outcomes >= {"as it was closed", "recovered"}
