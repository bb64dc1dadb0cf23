"""Plans: the order of their steps, and that a run that ends anywhere in them is taken up again."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.log.recovery import plan_recovery, run_scan
from stratalog.log.recovery.facts import FindingKind
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.steps import KeepFile, KeepRange, Truncate, apply_steps
from tests.log.model import batch, produced
from tests.log.recovery.directory import Directory, comparable

ONE = len(batch(b"x"))


@pytest.fixture
def damaged(tmp_path: Path) -> Directory:
    """Segments 0, 3, 6 and 9; a batch of the second is damaged, and no index or snapshot is as it was."""
    orders = Directory(tmp_path / "data", internal_segment_bytes=3 * ONE, index_interval_bytes=1)
    log = orders.open()
    for number in range(12):
        log.append_as_leader(produced(1, number, b"x"), leader_epoch=number // 5)
    log.close()
    orders.flip(3, 2 * ONE - 1)
    for base in (0, 3, 6, 9):
        orders.write(base, ".index", bytes(800))
    orders.delete(0, ".timeindex")
    orders.delete(3, ".snapshot")
    orders.write(0, ".log.cleaned", b"?")
    return orders


def planned(orders: Directory) -> RecoveryPlan:
    survey = orders.survey()
    return plan_recovery(survey, {task.name: run_scan(orders.disk, task) for task in survey.scans})


def test_segments_behind_damage_go_from_the_last_one_down_before_it_is_cut(damaged: Directory) -> None:
    plan = planned(damaged)

    order = [
        (type(step), int(step.file.name[:20]))
        for step in plan.steps
        if isinstance(step, KeepFile | KeepRange)
        or (isinstance(step, Truncate) and step.file.name[20:] == ".log")
    ]
    assert order == [(KeepFile, 9), (KeepFile, 6), (KeepRange, 3), (Truncate, 3)]


def test_a_plan_changes_nothing(damaged: Directory) -> None:
    before = damaged.contents()

    assert planned(damaged).changes_anything

    assert damaged.contents() == before


def test_a_second_run_has_nothing_to_do(damaged: Directory) -> None:
    damaged.recover()

    assert damaged.recover().steps == ()


def test_a_run_that_ends_after_any_step_is_taken_up_again(damaged: Directory, tmp_path: Path) -> None:
    whole = damaged.copy(tmp_path / "whole")
    whole.recover()
    steps_count = len(planned(damaged).steps)

    for done in range(steps_count):
        killed = damaged.copy(tmp_path / f"after-{done}")
        apply_steps(killed.disk, killed.path, planned(killed).steps[:done], killed.quarantine)
        plan = killed.recover()

        assert comparable(killed.contents()) == comparable(whole.contents()), done
        assert plan.log_end_offset == 4
        assert kept(killed) == kept(whole)


def kept(orders: Directory) -> set[tuple[str, int, int]]:
    return {(entry.file, entry.position, entry.size) for entry in orders.quarantine.entries()}


def test_the_cuts_say_what_is_lost(damaged: Directory) -> None:
    plan = planned(damaged)

    assert [
        (cut.file[17:], cut.position, cut.size, cut.first_offset, cut.last_offset) for cut in plan.cuts
    ] == [
        ("003.log", ONE, 2 * ONE, 4, 5),
        ("006.log", 0, 3 * ONE, 6, 8),
        ("009.log", 0, 3 * ONE, 9, None),
    ]


def test_an_index_has_no_more_entries_than_its_setting_allows(tmp_path: Path) -> None:
    # A broker does not start over one that has more: "Attempt to append to a full index".
    orders = Directory(tmp_path / "data", index_interval_bytes=0, segment_index_bytes=40)
    data = b"".join(batch(b"x", base_offset=offset, timestamp=offset) for offset in range(20))
    orders.write(0, ".log", data)

    orders.recover()

    assert orders.file(0, ".index").stat().st_size == 40
    times = orders.file(0, ".timeindex").read_bytes()
    assert len(times) == 36
    assert times[-12:] == (19).to_bytes(8, "big") + (19).to_bytes(4, "big")


class NotingDisk(Disk):
    """A disk that notes what is synced, and refuses to sync one file."""

    def __init__(self, refused: str = "") -> None:
        super().__init__()
        self.synced: list[str] = []
        self._refused = refused

    def sync(self, path):  # type: ignore[no-untyped-def]
        name = Path(path).name
        if name == self._refused:
            raise DiskError(path, "refused", errno.EIO)
        self.synced.append(name)
        super().sync(path)


def test_whatever_is_accepted_is_synced_though_it_is_right_as_it_is(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data", internal_segment_bytes=3 * ONE, index_interval_bytes=1)
    log = orders.open()
    for number in range(60):
        log.append_as_leader(produced(1, number, b"x"), leader_epoch=0)
    log.close()
    orders.disk = disk = NotingDisk()

    plan = orders.recover()

    assert not plan.steps
    suffixes = (".log", ".index", ".timeindex", ".snapshot")
    assert sorted(disk.synced) == sorted(name for name in orders.names if name.endswith(suffixes))
    orders.disk = NotingDisk(refused=f"{30:020d}.timeindex")
    with pytest.raises(DiskError, match="refused"):
        orders.recover()


def test_an_epoch_file_that_is_a_link_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "data")
    directory.write(0, ".log", batch(b"x") + b"torn")
    (tmp_path / "elsewhere").write_text("0\n0\n")
    (directory.path / "leader-epoch-checkpoint").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(DiskError, match="a link"):
        directory.recover()

    assert directory.file(0, ".log").read_bytes() == batch(b"x") + b"torn"
    assert (tmp_path / "elsewhere").read_text() == "0\n0\n"


def test_damage_in_a_flushed_segment_that_is_split_was_cut_off(tmp_path: Path) -> None:
    """It was reported as left as it is, as in any other flushed segment, but it was gone."""
    orders = Directory(tmp_path / "data")
    far = 2**31 + 5
    first = batch(b"x", base_offset=0)
    second = batch(b"x", base_offset=far) + batch(b"x", base_offset=far + 1)[:-1] + b"?"
    second += batch(b"x", base_offset=far + 2)
    orders.write(0, ".log", first + second)
    orders.write(far + 9, ".log", batch(b"x", base_offset=far + 9))

    plan = orders.recover(recovery_point=far + 9)

    assert orders.file(0, ".log").read_bytes() == first
    assert orders.file(far, ".log").read_bytes() == second
    assert plan.cuts == ()
    kinds = [finding.kind for finding in plan.findings]
    assert FindingKind.DAMAGE_BELOW_RECOVERY_POINT in kinds
    assert orders.recover(recovery_point=far + 9).steps == ()


def test_a_log_that_was_empty_before_its_start_misses_records(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data")
    orders.write(0, ".log", b"")

    assert orders.recover(log_start_offset=7).misses_records
    assert not orders.recover(log_start_offset=7).misses_records


def test_a_log_that_is_missing_behind_a_cut_is_told_by_the_cut(damaged: Directory) -> None:
    """As after a recovery that was killed while it removed the segments after the damage."""
    damaged.delete(9, ".log")

    plan = damaged.recover()

    assert [cut.first_offset for cut in plan.cuts] == [4, 6]
    assert not plan.misses_records
