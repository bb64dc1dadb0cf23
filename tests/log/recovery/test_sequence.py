"""Where a log ends after a crash, and what is left of its epochs and producers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stratalog.log.producers.snapshot import parse_snapshot
from stratalog.log.recovery.facts import FindingKind
from stratalog.records.control import ControlType
from tests.log.model import append_marker, batch, marker, produced, read_all
from tests.log.recovery.directory import ONE, Directory, comparable


def with_transactions(root: Path) -> Directory:
    """A closed log of several segments, in which transactions were aborted, committed and left open."""
    directory = Directory(root, internal_segment_bytes=300, index_interval_bytes=100)
    log = directory.open()
    for number in range(6):
        log.append_as_leader(produced(1, number, b"a", transactional=True), leader_epoch=0)
        log.append_as_leader(produced(2, number, b"b", transactional=True), leader_epoch=0)
        append_marker(log, 1, ControlType.ABORT if number % 2 else ControlType.COMMIT)
        append_marker(log, 2, ControlType.ABORT)
    log.append_as_leader(produced(3, 0, b"open", transactional=True), leader_epoch=0)
    log.close()
    return directory


@pytest.mark.parametrize(
    ("suffixes", "last_only"),
    [
        ((".index", ".timeindex", ".txnindex"), False),
        ((".index", ".timeindex", ".txnindex"), True),
        ((".index", ".timeindex", ".txnindex", ".snapshot"), True),
        ((".snapshot",), False),
    ],
)
def test_indexes_and_snapshots_that_are_lost_come_back_as_they_were(
    tmp_path: Path, suffixes: tuple[str, ...], last_only: bool
) -> None:
    directory = with_transactions(tmp_path / "data")
    before = directory.contents()
    last = max(directory.offsets(".log"))
    for path in [*directory.path.iterdir()]:
        if path.suffix in suffixes and (not last_only or int(path.stem) >= last):
            path.unlink()

    directory.recover()

    after = directory.contents()
    kept = (".log", ".index", ".timeindex", ".txnindex")
    assert {name: data for name, data in after.items() if name.endswith(kept)} == {
        name: data for name, data in before.items() if name.endswith(kept)
    }
    end = f"{directory.open().log_end_offset:020d}.snapshot"
    assert comparable({end: after[end]}) == comparable({end: before[end]})


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_behind_the_log_and_in_its_index_cost_no_record(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    directory = Directory(tmp_path / "data", internal_segment_bytes=300, index_interval_bytes=100)
    log = directory.open()
    values = [rng.randbytes(rng.randrange(1, 60)) for _ in range(rng.randrange(1, 20))]
    for value in values:
        log.append_as_leader(batch(value), leader_epoch=0)
    log.close()
    last = max(directory.offsets(".log"))
    directory.append(last, ".log", rng.randbytes(rng.randrange(1, 500)))
    if directory.file(last, ".index").exists():
        directory.append(last, ".index", rng.randbytes(rng.randrange(1, 500)))

    directory.recover()

    assert [record.value for record in read_all(directory.open())] == values


def test_a_recovered_log_can_be_truncated_to_one_segment(tmp_path: Path) -> None:
    directory = with_transactions(tmp_path / "data")
    directory.recover()
    log = directory.open()

    log.truncate_to(1)

    assert (len([*log.segments]), log.log_end_offset) == (1, 1)
    assert [record.value for record in read_all(log)] == [b"a"]


def test_a_producer_whose_segment_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "data")
    log = directory.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)
    log.roll()
    log.append_as_leader(produced(2, 0, b"b"), leader_epoch=0)
    log.close()
    directory.delete(0, ".log", ".index", ".timeindex")
    for offset in directory.offsets(".snapshot"):
        directory.delete(offset, ".snapshot")

    directory.recover(log_start_offset=1)

    assert set(directory.snapshot(2)) == {2}


def test_a_damaged_batch_ends_the_log_and_what_follows_is_kept(orders: Directory) -> None:
    orders.flip(5, 2 * ONE - 1)
    damaged, last = orders.file(5, ".log").read_bytes(), orders.file(10, ".log").read_bytes()

    plan = orders.recover(recovery_point=5)

    assert orders.offsets(".log") == [0, 5]
    assert orders.file(5, ".log").read_bytes() == damaged[:ONE]
    assert (plan.log_end_offset, orders.offsets(".snapshot")) == (6, [5, 6])
    assert [(cut.file[15:], cut.position, cut.first_offset, cut.is_whole) for cut in plan.cuts] == [
        ("00005.log", ONE, 6, False),
        ("00010.log", 0, 10, True),
    ]
    kept = [(orders.root / cut.kept_as).read_bytes() for cut in plan.cuts if cut.kept_as]
    assert kept == [damaged[ONE:], last]
    assert not plan.is_only_torn_tail


def test_damage_below_the_recovery_point_is_not_looked_for(orders: Directory) -> None:
    orders.flip(5, 2 * ONE - 1)
    before = orders.contents()

    plan = orders.recover(recovery_point=10)

    assert orders.contents() == before
    assert (plan.log_end_offset, plan.findings, plan.scanned_bytes) == (13, (), 3 * ONE)


def test_stray_snapshots_are_removed_and_the_last_one_is_taken_again(orders: Directory) -> None:
    for offset in (7, 99):
        orders.write(offset, ".snapshot", orders.file(5, ".snapshot").read_bytes())

    orders.recover(clean=True)

    assert orders.offsets(".snapshot") == [5, 10, 13]


def test_a_log_that_ends_before_its_start_begins_anew_there(orders: Directory) -> None:
    plan = orders.recover(log_start_offset=20)

    assert (orders.offsets(".log"), plan.log_start_offset, plan.log_end_offset) == ([20], 20, 20)
    assert orders.file(20, ".log").stat().st_size == 0
    assert orders.offsets(".snapshot") == []
    assert (orders.path / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    assert sorted(cut.file for cut in plan.cuts) == [f"{base:020d}.log" for base in (0, 5, 10)]
    assert len(orders.quarantine.entries()) == 3
    assert {cut.reason for cut in plan.cuts} == {"the log ends at offset 13, before its start at 20"}


def test_a_log_begins_anew_where_one_of_its_segments_began(orders: Directory) -> None:
    """Damage below the log's start removes everything after it, including the segment at the start."""
    orders.flip(0, 70)

    plan = orders.recover(log_start_offset=10)

    assert (orders.offsets(".log"), plan.log_start_offset, plan.log_end_offset) == ([10], 10, 10)
    assert orders.file(10, ".log").stat().st_size == 0
    assert sorted(cut.file for cut in plan.cuts) == [f"{base:020d}.log" for base in (0, 5, 10)]
    assert orders.open(log_start_offset=10).log_end_offset == 10


def test_epochs_that_the_file_lacks_come_from_the_log(orders: Directory) -> None:
    (orders.path / "leader-epoch-checkpoint").unlink()

    orders.recover()

    assert (orders.path / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_a_damaged_epoch_file_is_written_anew_from_the_whole_log(orders: Directory) -> None:
    (orders.path / "leader-epoch-checkpoint").write_text("0\n7\n")

    plan = orders.recover(recovery_point=13)

    assert (orders.path / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert FindingKind.EPOCH_FILE in [finding.kind for finding in plan.findings]


def test_epochs_that_recovery_found_and_cut_leave_a_file_that_says_there_are_none(tmp_path: Path) -> None:
    # Kafka writes each as it finds it; the file of a log that never had a leader is empty.
    orders = Directory(tmp_path / "data", index_interval_bytes=0)
    orders.write(0, ".log", b"".join(batch(b"x", base_offset=offset) for offset in (0, 1, 5, 3)))

    orders.recover()

    assert (orders.path / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"


def test_an_epoch_above_the_cut_is_forgotten(orders: Directory) -> None:
    (orders.path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 12\n")
    orders.flip(10, 2 * ONE - 1)

    orders.recover()

    assert (orders.path / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_a_marker_of_an_older_coordinator_is_kept_and_the_last_one_counts(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "data")
    commit = ControlType.COMMIT
    directory.write(
        0,
        ".log",
        produced(1, 0, b"a", transactional=True)
        + marker(1, commit, coordinator_epoch=5, base_offset=1)
        + produced(1, 1, b"b", transactional=True, base_offset=2)
        + marker(1, commit, coordinator_epoch=4, base_offset=3),
    )

    plan = directory.recover()

    assert (plan.cuts, plan.log_end_offset) == ((), 4)
    (producer,) = parse_snapshot(directory.file(4, ".snapshot").read_bytes())
    assert (producer.coordinator_epoch, producer.current_txn_first_offset) == (4, None)


def test_epoch_0_is_an_epoch_like_any_other(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "data")
    directory.write(0, ".log", batch(b"a") + batch(b"b", base_offset=1, leader_epoch=3))

    directory.recover()

    assert (directory.path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 1\n"
