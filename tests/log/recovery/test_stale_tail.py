"""Stale batches after a log's last one: which stay, as in Kafka, and which would hide the end.

Whether a broker finds the end is shown on Kafka in tests/kafka/test_recovery_differences.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.files.disk import Disk
from stratalog.log.recovery.task import ScanTask, run_scan
from stratalog.segment.scan import ScanStop
from tests.fixtures import catalog
from tests.fixtures.catalog import Partition
from tests.log.model import batch, produced
from tests.log.recovery.directory import Directory, comparable

ONE = len(batch(b"x", b"x", b"x"))


def threes(*base_offsets: int) -> bytes:
    """Batches of three records each."""
    return b"".join(batch(b"x", b"x", b"x", base_offset=offset) for offset in base_offsets)


@pytest.fixture
def orders(tmp_path: Path) -> Directory:
    """Two segments of five batches each; of each the third and the fifth are indexed."""
    directory = Directory(tmp_path / "data", internal_segment_bytes=5 * ONE, index_interval_bytes=ONE)
    log = directory.open()
    for _ in range(10):
        log.append_as_leader(threes(0), leader_epoch=0)
    log.close()
    assert directory.offsets(".log") == [0, 15]
    return directory


def test_a_stale_batch_that_hides_the_end_is_cut_and_kept(orders: Directory) -> None:
    before = comparable(orders.contents())
    orders.append(15, ".log", threes(18))

    plan = orders.recover(recovery_point=15)

    assert (comparable(orders.contents()), plan.log_end_offset) == (before, 30)
    (cut,) = plan.cuts
    assert (cut.position, cut.size, plan.is_only_torn_tail) == (5 * ONE, ONE, False)
    assert cut.kept_as is not None
    assert (orders.root / cut.kept_as).read_bytes() == threes(18)
    assert orders.recover(recovery_point=15).steps == ()


def test_what_is_torn_behind_a_stale_batch_goes_with_it_and_so_do_the_segments_that_follow(
    orders: Directory,
) -> None:
    good = orders.file(0, ".log").read_bytes()
    orders.append(0, ".log", threes(3) + b"torn")

    plan = orders.recover()

    assert (orders.offsets(".log"), orders.file(0, ".log").read_bytes()) == ([0], good)
    assert plan.log_end_offset == 15
    assert [(cut.position, cut.is_whole) for cut in plan.cuts] == [(5 * ONE, False), (0, True)]


def test_a_stale_batch_with_segments_behind_it_hides_no_end(orders: Directory) -> None:
    orders.append(0, ".log", threes(3))

    plan = orders.recover()

    assert (plan.cuts, plan.log_end_offset) == ((), 30)


def test_where_a_higher_batch_follows_the_last_indexed_one_the_stale_batch_is_the_last(
    tmp_path: Path,
) -> None:
    # With it a broker finds the last indexed batch, and trusts the last batch of all.
    orders = Directory(tmp_path / "data", index_interval_bytes=2 * ONE)
    orders.write(0, ".log", threes(0, 3, 6, 9, 12, 3))

    plan = orders.recover()

    assert (plan.cuts, plan.log_end_offset) == ((), 6)


def test_a_repeated_last_batch_hides_no_end(orders: Directory) -> None:
    orders.append(15, ".log", threes(27))

    plan = orders.recover(recovery_point=15)

    assert (plan.cuts, plan.log_end_offset) == ((), 30)


def test_below_the_recovery_point_a_stale_tail_stays(orders: Directory) -> None:
    orders.append(0, ".log", threes(3) + b"torn")
    orders.delete(0, ".index")
    found = orders.file(0, ".log").read_bytes()

    plan = orders.recover(recovery_point=30)

    assert (orders.file(0, ".log").read_bytes(), plan.cuts, plan.log_end_offset) == (found, (), 30)


def test_a_replay_from_inside_a_flushed_segment_comes_to_its_producers_though_a_stale_batch_is_its_last(
    tmp_path: Path,
) -> None:
    size = len(produced(7, 0, b"x"))
    orders = Directory(tmp_path / "data", internal_segment_bytes=4 * size)
    for first, end in ((0, 2), (2, 6)):
        log = orders.open()  # closing the first leaves a snapshot inside the segment
        for sequence in range(first, end):
            log.append_as_leader(produced(7, sequence, b"x"), leader_epoch=0)
        log.close()
    assert (orders.offsets(".log"), orders.offsets(".snapshot")) == ([0, 4], [2, 4, 6])
    before = [orders.snapshot(offset) for offset in (4, 6)]
    orders.append(0, ".log", batch(b"x", base_offset=1))
    orders.write(4, ".snapshot", b"torn")

    orders.recover(recovery_point=4)

    assert [orders.snapshot(offset) for offset in (4, 6)] == before


@pytest.mark.parametrize("partition", catalog.partitions(state="clean"), ids=str)
def test_no_log_that_a_broker_has_written_ends_in_a_stale_tail(partition: Partition) -> None:
    """Plain, compressed and compacted logs of each format, with the last index entry anywhere."""
    for log in partition.logs:
        size = log.stat().st_size
        for interval in (0, 100, 1000, 4096):
            for index_size in (0, 8, 40, 4096):
                task = ScanTask(
                    name=log.name,
                    path=str(log),
                    base_offset=int(log.stem),
                    size=size,
                    index_interval_bytes=interval,
                    max_index_size=index_size,
                    is_last=True,
                    cut_ends_log=True,
                )
                scan = run_scan(Disk(), task).scan
                assert (scan.stop, scan.valid_size) == (ScanStop.END, size)


@pytest.mark.parametrize("gaps", [(0, 1, 2**30, 5, 0), (2**30, 0, 0, 9), (7, 7, 7), (0, 0, 0, 0)])
@pytest.mark.parametrize("index_entries", [1, 2, 1000])
@pytest.mark.parametrize("torn", [b"", b"torn"])
def test_gaps_between_offsets_are_no_stale_tail(
    tmp_path: Path, gaps: tuple[int, ...], index_entries: int, torn: bytes
) -> None:
    """As compaction leaves them, and fetches of a follower: at the beginning, in between, of any width."""
    orders = Directory(tmp_path / "data", index_interval_bytes=1, segment_index_bytes=8 * index_entries)
    offset, log = 0, b""
    for gap in gaps:
        log += threes(offset + gap)
        offset += gap + 3
    orders.write(0, ".log", log + torn)

    plan = orders.recover()

    assert (orders.file(0, ".log").read_bytes(), plan.log_end_offset) == (log, offset)
    assert orders.file(0, ".index").stat().st_size == 8 * min(index_entries, len(gaps) - 1)
