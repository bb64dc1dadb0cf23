"""A power cut at any step of opening and closing: a clean-shutdown file that is found is right."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.manager.manager import LogManager
from tests import profile
from tests.log.model import ManualClock, ManualScheduler
from tests.manager.running import MARKER, append, values

KEYS = [TopicPartition("orders", number) for number in range(2)]
EXPECTED = {KEYS[0]: [b"a", b"b", b"c"], KEYS[1]: [b"x"]}
SETTINGS = {"internal.segment.bytes": 150, "segment.index.bytes": 120}
POINTS = "/data/recovery-point-offset-checkpoint"


class NoLock(DirectoryLock):
    """The lock of a simulated disk, which nobody else holds."""

    def acquire(self, *, is_trial: bool = False) -> None:
        pass

    def confirm(self) -> None:
        pass

    def check(self) -> None:
        pass

    def release(self) -> None:
        pass


def manager_on(
    disk: SimulatedDisk,
    *directories: str,
    settings: Mapping[str, int] = MappingProxyType(SETTINGS),
    high_watermark_follows_end: bool = False,
) -> LogManager:
    """A manager of /data, or of these directories, whose clock stands still."""
    clock = ManualClock()
    return LogManager(
        directories or ["/data"],
        server=ServerConfig(ManagerConfig(), LogConfig.of(settings), ()),
        disk=disk,
        clock=clock,
        scheduler=ManualScheduler(clock),
        make_lock=NoLock,
        high_watermark_follows_end=high_watermark_follows_end,
    )


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories("/data")
    disk.sync_everything()
    disk.steps = 0
    return disk


def run(disk: SimulatedDisk) -> None:
    """A first run that writes and closes, and a second one that only opens and closes."""
    manager = manager_on(disk)
    manager.startup()
    for key in KEYS:
        append(manager.get_or_create_log(key, is_new=True), *(value for value in EXPECTED[key]))
    manager.shutdown(broker_epoch=3)
    manager = manager_on(disk)
    manager.startup()
    manager.shutdown()


def steps_of_a_run() -> int:
    disk = new_disk()
    run(disk)
    return disk.steps


STEPS = steps_of_a_run()
CHOSEN = range(1, STEPS + 1, max(1, STEPS // profile.examples(STEPS, quick=20)))


@pytest.mark.parametrize("step", CHOSEN)
def test_a_directory_that_is_found_marked_is_whole(step: int) -> None:
    disk = new_disk()
    disk.crash_at(step)
    with pytest.raises(PowerCut):
        run(disk)

    for found in disk.crash():
        if not found.exists(f"/data/{MARKER}"):
            continue
        manager = manager_on(found)
        manager.startup()
        (directory,) = manager.directories
        assert directory.is_online
        logs = {log.topic_partition: values(log) for log in manager.all_logs()}
        assert logs == EXPECTED
        assert found.read_at(POINTS, 100, 0) == b"0\n2\norders 0 3\norders 1 1\n"
        manager.shutdown()
        assert found.read_at(f"/data/{MARKER}", 100, 0) == b'{"version":0,"brokerEpoch":3}'
