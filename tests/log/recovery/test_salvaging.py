"""Salvage over several segments, cut off at any step: what is in doubt in a later one stays in doubt."""

from __future__ import annotations

import pytest

from stratalog.config import LogConfig
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.run import recover_partition
from stratalog.log.recovery.survey import RecoveryOptions
from stratalog.records.control import ControlType
from tests.log.model import NOW, ORDERS, ManualClock, batch, marker, produced

DIRECTORY = "/logs/orders-0"
OPEN = produced(1, 0, b"a", transactional=True, base_offset=0)
LOST = batch(b"b", base_offset=1)
PLAIN = batch(b"c", base_offset=2)
MORE = produced(1, 1, b"d", transactional=True, base_offset=3)
OTHER = batch(b"e", base_offset=4)
COMMIT = marker(1, ControlType.COMMIT, base_offset=5)
FILES = {
    0: OPEN + LOST[:-1] + bytes([LOST[-1] ^ 1]) + PLAIN,
    3: MORE + OTHER,
    5: COMMIT,
}
# The transaction was open where a batch is lost, so nothing of it stays; its commit then ends nothing.
KEPT = {0: PLAIN, 3: OTHER, 5: COMMIT}


def new_disk() -> SimulatedDisk:
    return SimulatedDisk.of({name(base): data for base, data in FILES.items()}, ManualClock())


def name(base_offset: int) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.log"


def recover(disk: SimulatedDisk) -> None:
    recover_partition(
        disk,
        DIRECTORY,
        topic_partition=ORDERS,
        config=LogConfig(),
        now_ms=NOW,
        quarantine=Quarantine(disk, "/logs"),
        options=RecoveryOptions(salvage=True),
    )


def logs(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.contents().items() if path.endswith(".log")}


def test_a_power_cut_at_any_step_leaves_no_half_of_a_transaction_in_doubt() -> None:
    counting = new_disk()
    recover(counting)
    expected = {name(base): data for base, data in KEPT.items()}
    assert logs(counting) == expected
    for step in range(1, counting.steps + 1):
        disk = new_disk()
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            recover(disk)
        for found in disk.crash(4):
            recover(found)
            assert logs(found) == expected, step
