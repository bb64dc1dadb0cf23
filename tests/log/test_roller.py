"""New segments: what is done to the one before, in which order, and when there is nothing to do."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.log.folder import LogFolder
from stratalog.log.offsets import OffsetMetadata
from stratalog.segment.segment import LogSegment
from tests.log.model import DIRECTORY, Machine, batch, produced
from tests.log.watched import watched

LOG, SECOND = "00000000000000000000.log", "00000000000000000001.log"


@pytest.mark.parametrize(
    ("embedded", "before"),
    [(True, [f"sync {LOG}", "sync orders-0/", f"create {SECOND}"]), (False, [f"create {SECOND}"])],
)
def test_the_only_copy_is_on_the_device_before_it_goes_on_in_a_new_file(
    embedded: bool, before: list[str]
) -> None:
    disk, machine = watched()
    log = machine.open(embedded=embedded)
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    disk.done.clear()

    log._roller.roll()

    assert disk.of_logs() == before


def test_the_end_of_the_log_is_in_the_new_segment() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    segment = log._roller.roll()

    assert segment is log.segments.active
    assert log._marks.end == OffsetMetadata(1, 1, 0)


def test_a_snapshot_of_the_producers_is_taken_where_a_segment_begins() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)

    log._roller.roll()

    assert machine.files(".snapshot") == ["00000000000000000001.snapshot"]


def test_an_empty_segment_is_not_rolled_again_without_need() -> None:
    log = Machine().open()

    assert log._roller.roll() is log.segments.first
    assert len(log.segments) == 1


def test_a_replica_makes_an_empty_segment_anew_as_kafka_does() -> None:
    log = Machine().open(embedded=False)
    before = log.segments.first

    assert log._roller.roll() is not before
    assert log.segments.base_offsets == (0,)


def test_a_segment_with_records_is_not_begun_again() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log._marks.end = OffsetMetadata(0, 0, 0)

    with pytest.raises(UsageError, match="segment 0 has records in it"):
        log._roller.roll()


def test_a_roll_that_is_interrupted_is_done_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    create = LogFolder.create_segment
    calls: list[int] = []

    def interrupted(folder: LogFolder, base_offset: int) -> LogSegment:
        calls.append(base_offset)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return create(folder, base_offset)

    monkeypatch.setattr(LogFolder, "create_segment", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log._roller.roll()

    assert (log.segments.base_offsets, log.failure, calls) == ((0, 1), None, [1, 1])
    assert machine.disk.exists(f"{DIRECTORY}/{SECOND}")
