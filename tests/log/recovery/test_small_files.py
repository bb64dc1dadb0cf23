"""Indexes, snapshots and epochs are written together, and a crash between them costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.recovery import plan_recovery, recover_partition, run_scan
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.steps import Delete, SyncDirectory, Truncate, WriteFile
from stratalog.log.recovery.survey import survey_partition
from stratalog.records.control import ControlType
from tests import profile
from tests.log.model import NOW, ORDERS, append_marker, produced
from tests.log.recovery.directory import ONE, Directory, comparable

ALL = 1 << 62  # a recovery point past the log's end: only the load pass recovers segments


@pytest.fixture
def bare(tmp_path: Path) -> Directory:
    """Segments with an aborted transaction in each, restored from a copy of the .log files alone."""
    orders = Directory(tmp_path / "data", internal_segment_bytes=3 * ONE, index_interval_bytes=1)
    log = orders.open()
    for number in range(4):
        log.append_as_leader(produced(1, number, b"x", transactional=True), leader_epoch=number)
        append_marker(log, 1, ControlType.ABORT, leader_epoch=number)
    log.close()
    assert len(orders.offsets(".txnindex")) >= 2
    for path in orders.path.iterdir():
        if path.suffix != ".log":
            path.unlink()
    return orders


def planned(orders: Directory, recovery_point: int = 0) -> RecoveryPlan:
    survey = orders.survey(recovery_point=recovery_point)
    return plan_recovery(survey, {task.name: run_scan(orders.disk, task) for task in survey.scans})


def test_offset_indexes_that_were_missing_are_written_last(bare: Directory) -> None:
    steps = planned(bare, ALL).steps

    (sync,) = (number for number, step in enumerate(steps) if isinstance(step, SyncDirectory))
    suffixes = [step.name.partition(".")[2] if isinstance(step, WriteFile) else None for step in steps]
    assert set(suffixes[sync + 1 :]) == {"index"}
    assert set(suffixes[:sync]) == {"txnindex", "timeindex", "snapshot", ""}  # the last: leader epochs


def test_files_are_cut_before_others_are_written_and_snapshots_deleted_behind_them(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data", internal_segment_bytes=3 * ONE, index_interval_bytes=1)
    log = orders.open()
    for number in range(12):
        log.append_as_leader(produced(1, number, b"x"), leader_epoch=number // 5)
    log.close()
    for base in (0, 6):
        orders.append(base, ".index", bytes(80))
        orders.delete(base, ".timeindex")
    orders.write(2, ".snapshot", orders.file(3, ".snapshot").read_bytes())
    orders.delete(3, ".snapshot")

    kinds = [type(step) for step in planned(orders).steps]

    assert kinds == [Truncate, Truncate, WriteFile, WriteFile, WriteFile, Delete]


def on(contents: dict[str, bytes]) -> SimulatedDisk:
    return SimulatedDisk.of({f"/data/orders-0/{name}": data for name, data in contents.items()})


def recover(disk: SimulatedDisk, orders: Directory, recovery_point: int) -> None:
    recover_partition(
        disk,
        "/data/orders-0",
        topic_partition=ORDERS,
        config=orders.config,
        now_ms=NOW,
        quarantine=None,
        recovery_point=recovery_point,
    )


def left(disk: SimulatedDisk) -> dict[str, object]:
    return comparable({name.rpartition("/")[2]: data for name, data in disk.contents().items()})


@pytest.mark.parametrize("recovery_point", [0, ALL], ids=["recovered", "load pass alone"])
def test_a_power_cut_at_any_step_and_a_second_run_come_to_the_same(
    bare: Directory, recovery_point: int
) -> None:
    contents = bare.contents()
    whole = on(contents)
    recover(whole, bare, recovery_point)
    every = {profile.DEEP: 1, profile.CI: 5, profile.QUICK: 15}[profile.current()]

    count = 0
    for step in range(1, whole.steps + 1, every):
        disk = on(contents)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            recover(disk, bare, recovery_point)
        for found in disk.crash(12):
            recover(found, bare, recovery_point)
            assert left(found) == left(whole), (step, found.loss)
            count += 1
    assert count > 20


def test_what_is_written_together_is_whole_before_it_has_its_name(bare: Directory) -> None:
    """The order of the steps: all bytes, then all names, then the directory."""
    disk, seen = on(bare.contents()), list[str]()
    disk.before_step = lambda action, path: seen.append(f"{action} {str(path).rpartition('.')[2]}")

    recover(disk, bare, ALL)

    renamed = [number for number, step in enumerate(seen) if step == "rename tmp"]
    synced = [number for number, step in enumerate(seen) if step == "sync tmp"]
    indexes_count = sum(name.endswith(".index") for name in disk.contents())
    assert max(synced[:-indexes_count]) < renamed[0]
    assert max(synced) < renamed[-indexes_count]
    assert renamed[-indexes_count - 1] < synced[-indexes_count]


def test_a_survey_after_it_has_nothing_to_do(bare: Directory) -> None:
    disk = on(bare.contents())

    recover(disk, bare, 0)

    again = survey_partition(
        disk,
        "/data/orders-0",
        topic_partition=ORDERS,
        config=bare.config,
        now_ms=NOW,
        recovery_point=ALL,
    )
    assert not again.findings
