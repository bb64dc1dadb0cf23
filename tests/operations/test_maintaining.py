"""Work on the directories of a stopped node: what a report says when a disk refuses in the middle of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stratalog.config import ManagerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.directory.session import Unclean
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import DiskError
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.manager.manager import LogManager
from stratalog.operations.compact import Compaction
from stratalog.operations.looking import Partition
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.read_progress import CountRead
from stratalog.operations.report import Status
from stratalog.operations.work_report import PartitionWork, WorkReport
from tests.log.model import NOW, ManualClock, ManualScheduler, batch
from tests.manager.test_manager_crashes import NoLock

SETTINGS = {"cleanup.policy": "compact", "internal.segment.bytes": 5 * len(batch(b"0000", key=b"k"))}
TOPICS = dict.fromkeys("abc", SETTINGS)


class FullDisk(SimulatedDisk):
    """Creates no file of a cleaning in one partition, and does not read one file."""

    full = ""
    unreadable = ""

    def create(self, path: Any, size: int = 0) -> None:
        if self.full and f"/{self.full}/" in str(path) and str(path).endswith(".cleaned"):
            raise DiskError(path, "no space left on device")
        super().create(path, size)

    def read_file(self, path: Any) -> bytes | None:
        if self.unreadable and str(path) == self.unreadable:
            raise DiskError(path, "input/output error")
        return super().read_file(path)


def test_what_was_not_done_is_not_told_as_done() -> None:
    disk = three_logs()
    disk.full = "b-0"

    report = compact(disk)

    (directory,) = report.directories
    first, second, third = directory.partitions
    assert report.is_failed
    assert first.cleaned is not None
    assert first.error is None
    assert [(found.name, found.cleaned, found.deleted) for found in (second, third)] == [
        ("b-0", None, ()),
        ("c-0", None, ()),
    ]
    assert second.error is not None
    assert third.error is not None


def test_the_next_run_does_what_is_left() -> None:
    disk = three_logs()
    disk.full = "b-0"
    compact(disk)
    disk.full = ""

    report = compact(disk)

    assert not report.is_failed
    assert report.recovery is not None
    ends = {found.name: found.cleaned.end_offset for found in report.partitions if found.cleaned}
    assert ends == {"a-0": 20, "b-0": 20, "c-0": 20}  # of the first one nothing was written down


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_directory_that_cannot_be_read_fails_alone(dry_run: bool) -> None:
    disk = three_logs("/data", "/other")
    disk.unreadable = "/data/replication-offset-checkpoint"

    report = compact(disk, "/data", "/other", dry_run=dry_run)

    first, second = report.directories
    assert first.error is not None
    assert not first.is_begun
    assert [found.name for found in second.partitions if found.cleaned] == ["b-0"]
    assert report.status is Status.FAILED
    assert "Nothing was done in /data, which could not be read." in report.verdict
    assert disk.exists("/data/.kafka_cleanshutdown")
    assert disk.exists("/other/.kafka_cleanshutdown")


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_error_of_one_partition_leaves_the_others_in_the_report(dry_run: bool) -> None:
    disk = three_logs("/data", "/other")

    report = compact(disk, "/data", "/other", dry_run=dry_run, work=FailingCompaction)

    errors = {found.name: found.error is not None for found in report.partitions}
    assert errors == {"a-0": True, "b-0": False, "c-0": False}
    assert [found.name for found in report.partitions if found.cleaned] == ["c-0", "b-0"]
    assert report.status is Status.FAILED


class FailingCompaction(Compaction):
    """Cannot read one partition."""

    def plan(self, partition: Partition, now: int, on_read: CountRead) -> PartitionWork:
        if partition.name == "a-0":
            raise DiskError(partition.view.directory, "input/output error")
        return super().plan(partition, now, on_read)


def three_logs(*directories: str) -> FullDisk:
    clock = ManualClock()
    disk = FullDisk(clock)
    manager = LogManager(
        directories or ["/data"],
        topics=TopicConfigs(overrides=TOPICS),
        disk=disk,
        clock=clock,
        scheduler=ManualScheduler(clock),
        make_lock=NoLock,
    )
    manager.startup()
    for topic in TOPICS:
        log = manager.get_or_create_log(TopicPartition(topic, 0), is_new=True)
        for number in range(21):
            log.append_as_leader(batch(b"%04d" % number, key=b"%d" % (number % 3)), leader_epoch=0)
        log.update_high_watermark(21)
    manager.shutdown(broker_epoch=3)
    return disk


def compact(
    disk: SimulatedDisk,
    *directories: str,
    dry_run: bool = False,
    work: type[Compaction] = Compaction,
) -> WorkReport:
    return Maintenance(
        directories=directories or ["/data"],
        dry_run=dry_run,
        sources=TopicSources(topic_settings=json.dumps(TOPICS)),
        unclean=Unclean.RECOVER,
        disk=disk,
        clock=lambda: NOW,
        make_lock=NoLock,
    ).run(work(ManagerConfig(log_cleaner_dedupe_buffer_size=10_000)))
