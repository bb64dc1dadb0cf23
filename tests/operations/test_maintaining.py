"""Work on the directories of a stopped node: what a report says when a disk refuses in the middle of it."""

from __future__ import annotations

import json
from typing import Any

from stratalog.config import ManagerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.directory.session import Unclean
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import DiskError
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.manager.manager import LogManager
from stratalog.operations.compact import Compaction
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.work_report import WorkReport
from tests.log.model import NOW, ManualClock, ManualScheduler, batch
from tests.manager.test_manager_crashes import NoLock

SETTINGS = {"cleanup.policy": "compact", "internal.segment.bytes": 5 * len(batch(b"0000", key=b"k"))}
TOPICS = dict.fromkeys("abc", SETTINGS)


class FullDisk(SimulatedDisk):
    """Creates no file of a cleaning in one partition."""

    full = ""

    def create(self, path: Any, size: int = 0) -> None:
        if self.full and f"/{self.full}/" in str(path) and str(path).endswith(".cleaned"):
            raise DiskError(path, "no space left on device")
        super().create(path, size)


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


def three_logs() -> FullDisk:
    clock = ManualClock()
    disk = FullDisk(clock)
    disk.make_directories("/data")
    manager = LogManager(
        ["/data"],
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


def compact(disk: SimulatedDisk) -> WorkReport:
    return Maintenance(
        directories=["/data"],
        sources=TopicSources(topic_settings=json.dumps(TOPICS)),
        unclean=Unclean.RECOVER,
        disk=disk,
        clock=lambda: NOW,
        make_lock=NoLock,
    ).run(Compaction(ManagerConfig(log_cleaner_dedupe_buffer_size=10_000)))
