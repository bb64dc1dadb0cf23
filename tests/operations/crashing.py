"""Runs of `retain` and `compact` on a disk that fails or loses its power."""

from __future__ import annotations

import json

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.config.keys import ConfigValue
from stratalog.directory.known_topics import TopicSources
from stratalog.directory.session import Unclean
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.manager.manager import LogManager
from stratalog.operations.maintaining import Maintenance, Work
from stratalog.operations.work_report import WorkReport
from tests.log.model import NOW, ManualClock, ManualScheduler, batch
from tests.manager.test_manager_crashes import NoLock

SET_SIZE = len(batch(b"0000", key=b"k"))
SEGMENT = {"internal.segment.bytes": 5 * SET_SIZE, "segment.index.bytes": 240}
TOPICS: dict[str, dict[str, ConfigValue]] = {
    "compacted": {**SEGMENT, "cleanup.policy": "compact"},
    "limited": {**SEGMENT, "retention.ms": -1, "retention.bytes": 5 * SET_SIZE},
}
COUNT, KEYS = 21, 3


def manager_on(disk: SimulatedDisk) -> LogManager:
    clock = ManualClock()
    return LogManager(
        ["/data"],
        server=ServerConfig(ManagerConfig(), LogConfig(), ()),
        topics=TopicConfigs(overrides=TOPICS),
        disk=disk,
        clock=clock,
        scheduler=ManualScheduler(clock),
        make_lock=NoLock,
    )


def new_disk() -> SimulatedDisk:
    """A directory that was shut down cleanly, with a log for each topic."""
    disk = SimulatedDisk(lambda: NOW)
    disk.make_directories("/data")
    manager = manager_on(disk)
    manager.startup()
    for topic in TOPICS:
        log = manager.get_or_create_log(TopicPartition(topic, 0), is_new=True)
        for number in range(COUNT):
            data = batch(b"%04d" % number, key=b"%d" % (number % KEYS))
            log.append_as_leader(data, leader_epoch=0)
        log.update_high_watermark(COUNT)
    manager.shutdown(broker_epoch=3)
    disk.sync_everything()
    disk.steps = 0
    return disk


def maintain(disk: SimulatedDisk, work: Work) -> WorkReport:
    return Maintenance(
        directories=["/data"],
        sources=TopicSources(topic_settings=json.dumps(TOPICS)),
        unclean=Unclean.RECOVER,
        disk=disk,
        clock=lambda: NOW,
        make_lock=NoLock,
    ).run(work)
