"""A power cut at any step of a compaction that splits a segment: nothing is lost, and the next run ends."""

from __future__ import annotations

import random

import pytest

from stratalog.config import ManagerConfig
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.operations.compact import Compaction
from stratalog.records.build import BatchOptions, Record, build_batch
from tests import profile
from tests.log.cleaning.dirty import records_of
from tests.log.model import NOW
from tests.operations.crashing import maintain, manager_on

FAR = 2**31 + 5
END = 2 * FAR
LEFT = {1: b"b1", FAR: b"a2", FAR + 1: b"c1", END: b"z1"}
STATES_OF_A_STEP = 2


def overflowed_disk() -> SimulatedDisk:
    """A log whose first segment has offsets too far for an index entry; shut down cleanly."""
    disk = SimulatedDisk(lambda: NOW)
    disk.make_directories("/data")
    manager = manager_on(disk)
    manager.startup()
    log = manager.get_or_create_log(TopicPartition("compacted", 0), is_new=True)
    for offset, value in ((0, b"a1"), (1, b"b1")):
        log.append_as_follower(batch(offset, value), leader_epoch=0)
    segment = log.segments.active
    for offset, value in ((FAR, b"a2"), (FAR + 1, b"c1")):
        disk.write_at(segment.log_path, batch(offset, value), segment.size)
        segment.reader.size += len(batch(offset, value))
    log.roll(END)
    log.append_as_follower(batch(END, b"z1"), leader_epoch=0)
    log.update_high_watermark(END + 1)
    manager.shutdown(broker_epoch=3)
    disk.sync_everything()
    disk.steps = 0
    return disk


def batch(offset: int, value: bytes) -> bytes:
    return build_batch([Record(offset, NOW, value[:1], value)], BatchOptions(partition_leader_epoch=0))


def work() -> Compaction:
    return Compaction(ManagerConfig(log_cleaner_dedupe_buffer_size=10_000))


def found_on(disk: SimulatedDisk) -> dict[int, bytes | None]:
    manager = manager_on(disk)
    manager.startup()
    try:
        (log,) = manager.all_logs()
        return {record.offset: record.value for record in records_of(log)}
    finally:
        manager.shutdown()


def steps() -> list[int]:
    disk = overflowed_disk()
    maintain(disk, work())
    return list(range(1, disk.steps + 1))


STEPS = steps()
PART = {profile.DEEP: 1, profile.CI: 20, profile.QUICK: 40}[profile.current()]
CHOSEN = sorted(random.Random("split").sample(STEPS, -(-len(STEPS) // PART)))


def test_without_a_power_cut_it_is_split_and_compacted() -> None:
    disk = overflowed_disk()

    report = maintain(disk, work())

    assert not report.is_failed
    assert found_on(disk) == LEFT


@pytest.mark.parametrize("step", CHOSEN)
def test_after_a_power_cut_no_record_is_missing_and_the_next_run_ends_it(step: int) -> None:
    disk = overflowed_disk()
    disk.crash_at(step)
    with pytest.raises(PowerCut):
        maintain(disk, work())

    for found, again in zip(disk.crash(STATES_OF_A_STEP), disk.crash(STATES_OF_A_STEP), strict=True):
        assert found_on(found).items() >= LEFT.items()
        assert not maintain(again, work()).is_failed
        assert found_on(again) == LEFT
