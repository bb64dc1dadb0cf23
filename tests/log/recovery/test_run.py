"""A partition that was left in the middle of something, recovered from end to end.

The first part are states in which Kafka 4.3.1 was observed: three segments of one-record batches, 0 to 4,
5 to 9 and 10 to 12, closed cleanly. "C" is what compaction makes of the first two: base 0, batches 1 3 5 7 9.
Kafka's outcome is the expectation; where it is not, the test's name says so.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.log.recovery.facts import FindingKind
from stratalog.log.recovery.run import recover_partition
from tests import naive
from tests.log.model import NOW, ORDERS, batch
from tests.log.recovery.directory import ONE, Directory, comparable
from tests.profile import examples
from tests.segment.making import History

COMPACTED = b"".join(batch(b"x", base_offset=offset) for offset in (1, 3, 5, 7, 9))
TIME_ENTRY = NOW.to_bytes(8, "big") + (1).to_bytes(4, "big")
FAR = 2**31 + 5
WIDE = naive.encode_batch(
    [naive.Record(10, NOW, None, b"x")], last_offset_delta=2**31 - 1, partition_leader_epoch=0
)


def compacted(orders: Directory, log: str, index: str | None) -> None:
    """Add segment C, its log and its indexes with these suffixes after their names."""
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
    # Kafka opens the swapped segment to see where it ends, and leaves a preallocated index.
    compacted(orders, ".swap", None)

    plan = orders.recover(clean=True)

    assert orders.offsets(".log") == [0, 10]
    assert orders.file(0, ".index").read_bytes() == b""
    assert orders.file(0, ".timeindex").read_bytes() == TIME_ENTRY
    assert (plan.log_end_offset, orders.offsets(".snapshot")) == (13, [10, 13])


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
    """An empty segment keeps the base; Kafka leaves none. What is replaced is between the new segments."""
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


def test_a_torn_tail_is_cut_and_kept(orders: Directory) -> None:
    orders.append(10, ".log", batch(b"x", base_offset=13)[:-1])

    plan = orders.recover(recovery_point=13)

    assert orders.file(10, ".log").stat().st_size == 3 * ONE
    assert (plan.log_end_offset, plan.is_only_torn_tail) == (13, True)
    (cut,) = plan.cuts
    assert (cut.position, cut.size, cut.first_offset) == (3 * ONE, ONE - 1, 13)
    assert cut.kept_as is not None
    assert (orders.root / cut.kept_as).read_bytes() == batch(b"x", base_offset=13)[:-1]


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (batch(b"x", base_offset=13)[:-1], "They are kept as stratalog-quarantine-orders-0-"),
        (bytes(8192), "They are only zeros, counted in the manifest."),
    ],
)
def test_the_log_of_a_cut_says_where_its_bytes_are(
    orders: Directory, caplog: pytest.LogCaptureFixture, tail: bytes, words: str
) -> None:
    orders.append(10, ".log", tail)

    orders.recover(recovery_point=13)

    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"{len(tail)} bytes of {10:020d}.log from byte {3 * ONE} on are cut off: " in warning.getMessage()
    assert words in warning.getMessage()


def test_the_log_of_a_cut_says_that_nothing_is_kept(
    orders: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    orders.append(10, ".log", batch(b"x", base_offset=13)[:-1])

    recover_partition(
        orders.disk,
        orders.path,
        topic_partition=ORDERS,
        config=orders.config,
        now_ms=NOW,
        quarantine=None,
        recovery_point=13,
    )

    assert caplog.text.rstrip().endswith("They are not kept.")


def test_an_empty_directory_becomes_an_empty_log(tmp_path: Path) -> None:
    orders = Directory(tmp_path / "data")

    plan = orders.recover()

    assert (plan.log_end_offset, orders.offsets(".log")) == (0, [0])
    assert orders.open().log_end_offset == 0


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

    # A clock before all timestamps: no producer has expired.
    plan = orders.recover(recovery_point=bases[first] + 1, now_ms=0)

    after = {name: data for name, data in orders.contents().items() if data or name in before}
    assert comparable(after) == comparable(before)
    assert (plan.cuts, plan.log_end_offset) == ((), log.log_end_offset)


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 13), (False, 13)])
def test_damage_in_a_flushed_segment_is_salvaged_only_if_all_is_to_be_salvaged(
    orders: Directory, clean: bool, recovery_point: int
) -> None:
    """An audit recommends `recover --all --salvage` for the last copy, which left such damage as it was."""
    damaged = bytearray(orders.file(5, ".log").read_bytes())
    damaged[ONE + 30] ^= 1
    orders.write(5, ".log", bytes(damaged))
    left = orders.contents()

    for options in ({"salvage": True}, {"scan_all": True}):
        orders.recover(clean=clean, recovery_point=recovery_point, **options)
        assert orders.contents() == left

    plan = orders.recover(clean=clean, recovery_point=recovery_point, scan_all=True, salvage=True)

    assert [(cut.file, cut.position, cut.size, cut.first_offset) for cut in plan.cuts] == [
        (f"{5:020d}.log", ONE, ONE, 6)
    ]
    assert orders.file(5, ".log").read_bytes() == damaged[:ONE] + damaged[2 * ONE :]
    assert (plan.log_end_offset, orders.offsets(".log")) == (13, [0, 5, 10])
    assert orders.recover(clean=True, scan_all=True, salvage=True).steps == ()


def test_a_log_without_damage_is_left_as_it_is_if_all_is_to_be_salvaged(orders: Directory) -> None:
    left = orders.contents()

    for clean in (True, False):
        plan = orders.recover(clean=clean, recovery_point=13, scan_all=True, salvage=True)

        assert (plan.steps, plan.cuts) == ((), ())
        assert orders.contents() == left


def test_a_log_that_retention_has_emptied_was_said_to_lack_a_snapshot_after_a_clean_shutdown(
    tmp_path: Path,
) -> None:
    """Brokers delete it when they load such a log, and write it at every second shutdown."""
    orders = Directory(tmp_path / "data")
    for suffix in (".log", ".index", ".timeindex"):
        orders.write(13, suffix, b"")

    for _ in range(3):
        assert orders.recover(clean=True, log_start_offset=13).findings == ()
        assert orders.recover(clean=True, log_start_offset=13, scan_all=True).findings == ()


def test_a_log_with_records_lacks_a_snapshot_after_a_clean_shutdown(orders: Directory) -> None:
    orders.file(13, ".snapshot").unlink()

    (finding,) = orders.recover(clean=True).findings

    assert finding.kind is FindingKind.MISSING_SNAPSHOT
