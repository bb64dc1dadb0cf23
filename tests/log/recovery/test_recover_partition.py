"""What becomes of a partition that was left in the middle of something.

The first part are states in which Kafka 4.3.1 was observed: three segments of one-record batches, 0 to 4,
5 to 9 and 10 to 12, closed cleanly. "C" is what compaction makes of the first two: base 0, batches 1 3 5 7 9.
Kafka's outcome is the expectation; where it is not, the test's name says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.log.producers.snapshot import parse_snapshot
from stratalog.log.recovery.facts import FindingKind
from stratalog.records.control import ControlType
from tests import naive
from tests.log.model import NOW, batch, marker, produced, read_all
from tests.log.recovery.directory import Directory, comparable
from tests.profile import examples
from tests.segment.making import History

ONE = len(batch(b"x"))
COMPACTED = b"".join(batch(b"x", base_offset=offset) for offset in (1, 3, 5, 7, 9))
TIME_ENTRY = NOW.to_bytes(8, "big") + (1).to_bytes(4, "big")


@pytest.fixture
def orders(tmp_path: Path) -> Directory:
    directory = Directory(tmp_path / "data", internal_segment_bytes=5 * ONE)
    log = directory.open()
    for _ in range(13):
        log.append_as_leader(batch(b"x"), leader_epoch=0)
    log.close()
    return directory


def compacted(orders: Directory, log: str, index: str | None) -> None:
    """Put C there, its log and its indexes with these suffixes behind their names."""
    orders.write(0, f".log{log}", COMPACTED)
    if index is not None:
        orders.write(0, f".index{index}", b"")
        orders.write(0, f".timeindex{index}", TIME_ENTRY)


def test_a_clean_log_needs_no_step_even_if_it_counts_as_unclean(orders: Directory) -> None:
    plan = orders.recover(recovery_point=0)

    assert (plan.steps, plan.cuts, plan.findings, plan.log_end_offset) == ((), (), (), 13)
    assert plan.scanned_bytes == 13 * ONE


def test_cleaned_files_are_removed_and_the_originals_stay(orders: Directory) -> None:
    before = orders.contents()
    compacted(orders, ".cleaned", ".cleaned")

    plan = orders.recover(clean=True)

    assert orders.contents() == before
    assert plan.log_end_offset == 13


def test_a_swapped_log_with_cleaned_indexes_is_removed(orders: Directory) -> None:
    before = orders.contents()
    compacted(orders, ".swap", ".cleaned")

    orders.recover(clean=True)

    assert orders.contents() == before


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 0), (False, 10)])
@pytest.mark.parametrize("state", ["all originals", "0 deleted", "log in place"])
def test_a_swap_is_finished(orders: Directory, state: str, clean: bool, recovery_point: int) -> None:
    if state == "log in place":
        for base in (0, 5):
            for suffix in (".log", ".index", ".timeindex"):
                orders.rename(base, suffix, f"{suffix}.deleted")
        compacted(orders, "", ".swap")
    else:
        if state == "0 deleted":
            for suffix in (".log", ".index", ".timeindex"):
                orders.rename(0, suffix, f"{suffix}.deleted")
        compacted(orders, ".swap", ".swap")

    plan = orders.recover(clean=clean, recovery_point=recovery_point)

    assert orders.offsets(".log") == [0, 10]
    assert orders.file(0, ".log").read_bytes() == COMPACTED
    assert orders.file(0, ".timeindex").read_bytes() == TIME_ENTRY
    assert not {name for name in orders.names if name.endswith((".swap", ".deleted", ".cleaned"))}
    assert plan.log_end_offset == 13
    if state != "log in place":
        assert orders.offsets(".snapshot") == [10, 13]


def test_a_swapped_log_without_indexes_gets_them_where_kafka_leaves_zeros(orders: Directory) -> None:
    # Kafka opens the swapped segment to see where it ends, and leaves a preallocated index behind.
    compacted(orders, ".swap", None)

    plan = orders.recover(clean=True)

    assert orders.offsets(".log") == [0, 10]
    assert orders.file(0, ".index").read_bytes() == b""
    assert orders.file(0, ".timeindex").read_bytes() == TIME_ENTRY
    assert (plan.log_end_offset, orders.offsets(".snapshot")) == (13, [10, 13])


def test_a_missing_index_is_built_anew(orders: Directory) -> None:
    before = orders.contents()
    orders.delete(5, ".index")

    plan = orders.recover(clean=True)

    assert orders.contents() == before
    assert [finding.kind for finding in plan.findings][:1] == [FindingKind.MISSING_INDEX]


def test_a_missing_time_index_is_built_anew_where_kafka_leaves_it_empty(orders: Directory) -> None:
    before = orders.contents()
    orders.delete(0, ".timeindex")

    plan = orders.recover(clean=True)

    assert orders.contents() == before
    assert plan.scanned_bytes == 5 * ONE


def test_indexes_without_their_log_go_and_the_gap_stays(orders: Directory) -> None:
    orders.delete(5, ".log")

    plan = orders.recover(clean=True)

    assert orders.offsets("index") == [0, 0, 10, 10]
    assert orders.offsets(".snapshot") == [10, 13]
    assert (plan.log_end_offset, plan.segments_count) == (13, 2)


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


def test_damage_below_the_recovery_point_is_reported_when_all_is_scanned(orders: Directory) -> None:
    orders.flip(5, 2 * ONE - 1)
    before = orders.contents()

    plan = orders.recover(recovery_point=10, scan_all=True)

    assert orders.contents() == before
    (finding,) = plan.findings
    assert finding.kind is FindingKind.DAMAGE_BELOW_RECOVERY_POINT
    assert f"byte {ONE}" in finding.words


def test_stray_snapshots_are_removed_and_the_last_one_is_taken_again(orders: Directory) -> None:
    for offset in (7, 99):
        orders.write(offset, ".snapshot", orders.file(5, ".snapshot").read_bytes())

    orders.recover(clean=True)

    assert orders.offsets(".snapshot") == [5, 10, 13]


def test_a_segment_with_too_wide_offsets_is_split(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data")
    far = 2**31 + 5
    first = b"".join(batch(b"x", base_offset=offset) for offset in (0, 1))
    second = b"".join(batch(b"x", base_offset=offset) for offset in (far, far + 1))
    orders.write(0, ".log", first + second)

    plan = orders.recover()

    assert orders.offsets(".log") == [0, far]
    assert (orders.file(0, ".log").read_bytes(), orders.file(far, ".log").read_bytes()) == (first, second)
    assert (plan.log_end_offset, orders.offsets(".snapshot")) == (far + 2, [far, far + 2])
    assert orders.offsets(".index") == orders.offsets(".timeindex") == [0, far]
    assert orders.recover().steps == ()


FAR = 2**31 + 5
WIDE = naive.encode_batch(
    [naive.Record(10, NOW, None, b"x")], last_offset_delta=2**31 - 1, partition_leader_epoch=0
)


@pytest.mark.parametrize(
    ("data", "base", "end"),
    [
        (batch(b"x", base_offset=FAR) + batch(b"y", base_offset=FAR + 1), FAR, FAR + 2),
        (WIDE, 10, 10 + 2**31),
    ],
    ids=["every batch is too far", "the last offset of the only batch is"],
)
def test_a_segment_of_which_nothing_fits_its_base_gets_another(
    tmp_path: Path, data: bytes, base: int, end: int
) -> None:
    """An empty one keeps the base, where Kafka leaves none: what is replaced lies between the new ones."""
    orders = Directory(tmp_path / "data")
    orders.write(0, ".log", data)

    plan = orders.recover()

    assert orders.offsets(".log") == [0, base]
    assert (orders.file(0, ".log").read_bytes(), orders.file(base, ".log").read_bytes()) == (b"", data)
    assert (plan.log_end_offset, plan.cuts) == (end, ())
    assert orders.recover().steps == ()


def test_offsets_that_go_back_are_accepted_where_no_index_entry_is_due(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data")
    orders.write(0, ".log", b"".join(batch(b"x", base_offset=offset) for offset in (0, 1, 5, 3, 4)))

    assert orders.recover().log_end_offset == 5


def test_offsets_that_go_back_where_an_entry_is_due_empty_the_segment(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data", index_interval_bytes=0)
    data = b"".join(batch(b"x", base_offset=offset) for offset in (0, 1, 5, 3, 4))
    orders.write(0, ".log", data)

    plan = orders.recover()

    assert (plan.log_end_offset, orders.file(0, ".log").read_bytes()) == (0, b"")
    (cut,) = plan.cuts
    assert cut.kept_as is not None
    assert (orders.root / cut.kept_as).read_bytes() == data


def test_an_offset_below_its_segments_base_is_damage(orders: Directory) -> None:
    # A broker takes it for an overflow, tries to split the segment, and does not start.
    orders.append(10, ".log", batch(b"x", base_offset=3))

    plan = orders.recover(recovery_point=10)

    assert plan.log_end_offset == 13
    assert [(cut.position, cut.size) for cut in plan.cuts] == [(3 * ONE, ONE)]


def test_a_snapshot_that_cannot_be_written_cuts_nothing(orders: Directory) -> None:
    # Kafka empties segment 0 and deletes the others, for an error of the disk.
    orders.delete(5, ".snapshot")
    orders.file(5, ".snapshot").mkdir()
    logs = {base: orders.file(base, ".log").read_bytes() for base in (0, 5, 10)}

    with pytest.raises(DiskError, match=r"00005\.snapshot"):
        orders.recover()

    assert {base: orders.file(base, ".log").read_bytes() for base in (0, 5, 10)} == logs


# Crashes


def test_a_torn_tail_is_cut_and_kept(orders: Directory) -> None:
    orders.append(10, ".log", batch(b"x", base_offset=13)[:-1])

    plan = orders.recover(recovery_point=13)

    assert orders.file(10, ".log").stat().st_size == 3 * ONE
    assert (plan.log_end_offset, plan.is_only_torn_tail) == (13, True)
    (cut,) = plan.cuts
    assert (cut.position, cut.size, cut.first_offset) == (3 * ONE, ONE - 1, 13)
    assert cut.kept_as is not None
    assert (orders.root / cut.kept_as).read_bytes() == batch(b"x", base_offset=13)[:-1]


def test_a_padded_active_segment_is_as_a_clean_stop_leaves_it(orders: Directory) -> None:
    before = orders.contents()
    orders.write(10, ".index", bytes(8000))
    orders.write(10, ".timeindex", bytes(12000))
    orders.delete(13, ".snapshot")

    orders.recover(recovery_point=5)

    assert orders.contents() == before


def test_padded_indexes_below_the_recovery_point_are_cut(orders: Directory) -> None:
    before = orders.contents()
    orders.append(0, ".index", bytes(800))
    orders.append(5, ".timeindex", bytes(1200))

    plan = orders.recover(recovery_point=13)

    assert orders.contents() == before
    assert [finding.kind for finding in plan.findings] == [FindingKind.PADDED_INDEX] * 2


def test_a_log_that_ends_before_its_start_begins_anew_there(orders: Directory) -> None:
    plan = orders.recover(log_start_offset=20)

    assert (orders.offsets(".log"), plan.log_start_offset, plan.log_end_offset) == ([20], 20, 20)
    assert orders.file(20, ".log").stat().st_size == 0
    assert orders.offsets(".snapshot") == []
    assert (orders.path / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    assert sorted(cut.file for cut in plan.cuts) == [f"{base:020d}.log" for base in (0, 5, 10)]
    assert len(orders.quarantine.entries()) == 3


def test_a_log_begins_anew_where_one_of_its_segments_began(orders: Directory) -> None:
    """Damage below the log's start takes everything behind it, the segment at the start too."""
    orders.flip(0, 70)

    plan = orders.recover(log_start_offset=10)

    assert (orders.offsets(".log"), plan.log_start_offset, plan.log_end_offset) == ([10], 10, 10)
    assert orders.file(10, ".log").stat().st_size == 0
    assert sorted(cut.file for cut in plan.cuts) == [f"{base:020d}.log" for base in (0, 5, 10)]
    assert orders.open(log_start_offset=10).log_end_offset == 10


def test_an_empty_directory_becomes_an_empty_log(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data")

    plan = orders.recover()

    assert (plan.log_end_offset, orders.offsets(".log")) == (0, [0])
    assert orders.open().log_end_offset == 0


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


def test_a_transaction_index_that_cannot_be_its_own_is_built_anew(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data", internal_segment_bytes=1000)
    log = orders.open()
    for number in range(12):
        log.append_as_follower(
            produced(1, number, b"x", transactional=True, base_offset=2 * number), leader_epoch=0
        )
        log.append_as_follower(marker(1, ControlType.ABORT, base_offset=2 * number + 1), leader_epoch=0)
    log.close()
    before = orders.contents()
    base = orders.offsets(".log")[1]
    orders.write(base, ".txnindex", bytes(34))

    orders.recover(clean=True)

    assert comparable(orders.contents()) == comparable(before)


@pytest.mark.parametrize("seed", range(examples(200, quick=20)))
def test_a_crash_leaves_what_a_clean_stop_would_have_left(seed: int, tmp_path: Path) -> None:
    """The indexes from the recovery point on are lost, the snapshots too: all of it is in the log."""
    orders = Directory(tmp_path / "data", internal_segment_bytes=6000, index_interval_bytes=300)
    log = orders.open()
    history = History(seed, 0, producers=5)
    for _ in range(80):
        data = history.batch()
        log.append_as_follower(data if data[12] < 128 else data[:12] + bytes(4) + data[16:], leader_epoch=99)
    log.close()
    before = orders.contents()
    bases = orders.offsets(".log")
    first = history.random.randrange(len(bases))
    for base in bases[first:]:
        for suffix in (".index", ".timeindex"):
            orders.write(base, suffix, bytes(2400))
        orders.file(base, ".txnindex").unlink(missing_ok=True)
        orders.append(base, ".txnindex", bytes(history.random.choice([0, 5])))
    for offset in orders.offsets(".snapshot"):
        if offset > bases[first]:
            orders.delete(offset, ".snapshot")
    (orders.path / "leader-epoch-checkpoint").write_bytes(before["leader-epoch-checkpoint"] if first else b"")

    # A clock before all timestamps: nobody has been silent for long.
    plan = orders.recover(recovery_point=bases[first] + 1, now_ms=0)

    after = {name: data for name, data in orders.contents().items() if data or name in before}
    assert comparable(after) == comparable(before)
    assert (plan.cuts, plan.log_end_offset) == ((), log.log_end_offset)


# Salvage


def test_salvage_keeps_what_is_readable_behind_damage(orders: Directory) -> None:
    whole = orders.file(5, ".log").read_bytes()
    orders.flip(5, 2 * ONE - 1)
    damaged = orders.file(5, ".log").read_bytes()

    plan = orders.recover(recovery_point=5, salvage=True)

    assert orders.offsets(".log") == [0, 5, 10]
    assert orders.file(5, ".log").read_bytes() == whole[:ONE] + whole[2 * ONE :]
    assert plan.log_end_offset == 13
    (cut,) = plan.cuts
    assert cut.kept_as is not None
    assert (orders.root / cut.kept_as).read_bytes() == damaged[ONE : 2 * ONE]
    assert FindingKind.GAP in [finding.kind for finding in plan.findings]
    assert orders.recover(recovery_point=5).steps == ()
    assert [record.offset for record in read_all(orders.open())] == [*range(6), *range(7, 13)]


def test_a_transaction_open_at_a_gap_is_left_out_of_the_segments_behind_it_too(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data", internal_segment_bytes=3 * ONE + 60)
    log = orders.open()

    def write(offset: int, data: bytes) -> None:
        log.append_as_follower(data, leader_epoch=0)
        assert log.log_end_offset == offset + 1

    write(0, produced(1, 0, b"x", transactional=True, base_offset=0))
    write(1, batch(b"x", base_offset=1))
    write(2, batch(b"x", base_offset=2))
    log.roll()
    write(3, produced(1, 1, b"x", transactional=True, base_offset=3))
    write(4, produced(2, 0, b"x", transactional=True, base_offset=4))
    log.roll()
    write(5, marker(1, ControlType.COMMIT, base_offset=5))
    write(6, produced(1, 2, b"x", transactional=True, base_offset=6))
    log.close()
    orders.flip(0, 2 * ONE - 1)

    plan = orders.recover(salvage=True)

    # What began before the gap is gone wherever it went on, its commit ends nothing; what began behind stays.
    assert [record.offset for record in read_all(orders.open())] == [2, 4, 5, 6]
    assert plan.log_end_offset == 7


def test_transactions_open_at_a_gap_stay_if_asked_for(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data")
    log = orders.open()
    log.append_as_follower(produced(1, 0, b"x", transactional=True, base_offset=0), leader_epoch=0)
    log.append_as_follower(batch(b"x", base_offset=1), leader_epoch=0)
    log.append_as_follower(marker(1, ControlType.COMMIT, base_offset=2), leader_epoch=0)
    log.close()
    orders.flip(0, 2 * ONE - 1)

    orders.recover(salvage=True, keep_open_transactions=True)

    assert [record.offset for record in read_all(orders.open())] == [0, 2]


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
