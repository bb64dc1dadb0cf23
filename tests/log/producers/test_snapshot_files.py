"""The snapshots of a partition: when they are written, which are kept, and what becomes of damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.log.producers.snapshot import parse_snapshot
from stratalog.log.producers.snapshot_files import SnapshotFiles
from tests.log.model import NOW, Machine, batch, produced
from tests.log.producing import EMPTY, TWO, Producers, last_sequence, snapshots


def test_the_snapshot_offset_follows_plain_records_too() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    assert log.producers.map_end_offset == 1
    log.close()
    assert snapshots(machine) == [1]


def test_each_roll_takes_a_snapshot_and_flushing_removes_none() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(3):
        log.append_as_leader(batch(b"a"), leader_epoch=0)
        log.roll()
    log.flush()

    assert snapshots(machine) == [1, 2, 3]


def test_a_roll_by_an_append_snapshots_what_was_before_it() -> None:
    data = produced(1, 0, b"a")
    machine = Machine(internal_segment_bytes=len(data))
    log = machine.open()
    log.append_as_leader(data, leader_epoch=0)
    log.append_as_leader(produced(1, 1, b"b"), leader_epoch=0)

    assert snapshots(machine) == [1]
    assert [entry.last_sequence for entry in log.producers.snapshots.read(1)] == [0]


def test_truncation_keeps_the_snapshots_up_to_it() -> None:
    machine = Machine()
    log = machine.open()
    for number in range(4):
        log.append_as_leader(produced(1, number, b"a"), leader_epoch=0)
        log.roll()
    assert snapshots(machine) == [1, 2, 3, 4]

    log.truncate_to(3)
    assert (snapshots(machine), last_sequence(log)) == ([1, 2, 3], 2)
    log.truncate_to(2)
    assert (snapshots(machine), last_sequence(log)) == ([1, 2], 1)
    log.truncate_to(0)

    assert (snapshots(machine), log.producers.is_empty) == ([], True)


def test_a_snapshot_is_taken_at_the_end_of_the_map_and_not_twice(producers: Producers) -> None:
    producers.append(1, 0, 0)
    producers.append(1, 1, 1)

    path = producers.state.take_snapshot()
    assert path == str(producers.directory / "00000000000000000002.snapshot")
    assert producers.state.take_snapshot() is None
    producers.state.update_map_end_offset(3)
    assert producers.state.take_snapshot(sync=False) is not None
    assert producers.snapshot_names == ["00000000000000000002.snapshot", "00000000000000000003.snapshot"]


def test_nothing_is_written_where_nothing_was_appended(producers: Producers) -> None:
    assert producers.state.take_snapshot() is None
    assert producers.snapshot_names == []


def test_a_snapshot_takes_the_place_of_a_longer_leftover(producers: Producers) -> None:
    (producers.directory / "00000000000000000001.snapshot").write_bytes(bytes(500))
    producers.append(1, 0, 0)

    path = producers.state.take_snapshot()

    assert path is not None
    assert [entry.producer_id for entry in parse_snapshot(Path(path).read_bytes())] == [1]


@pytest.mark.parametrize("end", ["none", "commit", "abort"])
def test_a_reload_finds_the_state_of_the_snapshot(producers: Producers, end: str) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.append(1, 1, 1, count=4, transactional=True)
    if end != "none":
        producers.end(1, 5, abort=end == "abort", coordinator_epoch=3, timestamp=NOW + 5)
    producers.state.take_snapshot()

    reopened = producers.reopened()
    reopened.truncate_and_reload(0, 6, NOW)

    entry = reopened.producers[1]
    known = producers.state.producers[1]
    assert (entry.last_sequence, entry.last_data_offset, entry.last_offset_delta) == (4, 4, 3)
    assert entry.current_txn_first_offset == (0 if end == "none" else None)
    assert entry.coordinator_epoch == known.coordinator_epoch
    assert len(entry.batches) == 1
    assert reopened.map_end_offset == (5 if end == "none" else 6)


def test_a_reload_finds_an_entry_that_only_a_marker_made(producers: Producers) -> None:
    producers.end(1, 0, epoch=3, abort=True, coordinator_epoch=2)
    producers.state.take_snapshot()

    reopened = producers.reopened()
    reopened.truncate_and_reload(0, 1, NOW)

    entry = reopened.producers[1]
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_data_offset) == (3, 2, -1)
    assert entry.current_txn_first_offset is None


def test_a_fence_survives_the_reload(producers: Producers) -> None:
    producers.append(1, 0, 0, epoch=4)
    producers.end(1, 1, epoch=5, abort=True)
    producers.state.take_snapshot()

    reopened = producers.reopened()
    reopened.truncate_and_reload(0, 2, NOW + 1000)

    assert reopened.producers[1].producer_epoch == 5
    assert reopened.producers[1].is_empty


def test_a_producer_that_is_silent_too_long_is_not_loaded(tmp_path: Path) -> None:
    producers = Producers(tmp_path, producer_id_expiration_ms=1000)
    producers.append(1, 0, 0)
    producers.append(2, 0, 1, timestamp=NOW + 500)
    producers.append(3, 0, 2, transactional=True)
    producers.state.take_snapshot()

    reopened = producers.reopened()
    reopened.truncate_and_reload(0, 3, NOW + 1000)

    assert sorted(reopened.producers) == [2, 3]


def test_a_batch_that_is_not_in_the_snapshot_is_out_of_order_after_a_reload(producers: Producers) -> None:
    for number in range(3):
        producers.append(1, number, number)
    producers.state.take_snapshot()

    reopened = producers.reopened()
    reopened.truncate_and_reload(0, 3, NOW)

    entry = reopened.producers[1]
    assert entry.find_duplicate(0, 2, 2) is not None
    assert entry.find_duplicate(0, 1, 1) is None


def test_only_snapshots_inside_the_log_stay(producers: Producers) -> None:
    for number in range(5):
        producers.append(1, number, number)
        producers.state.take_snapshot()

    producers.state.truncate_and_reload(1, 3, NOW)

    assert producers.snapshot_names == ["00000000000000000002.snapshot", "00000000000000000003.snapshot"]
    assert producers.state.map_end_offset == 3
    assert producers.state.producers[1].last_sequence == 2


def test_a_state_that_already_ends_where_it_should_stays(producers: Producers) -> None:
    for number in range(3):
        producers.append(1, number, number)

    producers.state.truncate_and_reload(1, 3, NOW)

    assert len(producers.state.producers[1].batches) == 3


def test_full_truncation_forgets_everything(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.state.take_snapshot()

    producers.state.truncate_fully_and_start_at(7)

    assert producers.snapshot_names == []
    assert (producers.state.is_empty, producers.state.map_end_offset) == (True, 7)
    assert producers.first_unstable is None
    assert producers.state.take_snapshot() is not None


@pytest.mark.parametrize("damage", [b"", TWO[:30], b"\x17" * 56], ids=["empty", "cut", "garbage"])
def test_a_damaged_snapshot_is_deleted_and_the_one_before_it_used(
    producers: Producers, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    producers.append(1, 0, 0)
    producers.state.take_snapshot()
    producers.append(1, 1, 1)
    path = producers.state.take_snapshot()
    assert path is not None
    Path(path).write_bytes(damage)

    reopened = producers.reopened()
    reopened.truncate_and_reload(0, 3, NOW)

    assert producers.snapshot_names == ["00000000000000000001.snapshot"]
    assert reopened.map_end_offset == 1
    assert reopened.producers[1].last_sequence == 0
    assert path in caplog.text


def test_without_any_snapshot_the_map_starts_at_the_log_start(producers: Producers) -> None:
    producers.state.truncate_and_reload(4, 9, NOW)

    assert producers.state.map_end_offset == 4


def test_snapshots_before_an_offset_are_deleted(producers: Producers) -> None:
    for number in range(3):
        producers.append(1, number, number)
        producers.state.take_snapshot()

    producers.state.delete_snapshots_before(2)

    assert producers.snapshot_names == ["00000000000000000002.snapshot", "00000000000000000003.snapshot"]
    assert (producers.state.snapshots.oldest, producers.state.snapshots.latest) == (2, 3)
    assert producers.state.fetch_snapshot(1) is None
    assert producers.state.fetch_snapshot(3) == str(producers.directory / "00000000000000000003.snapshot")


def _touch(directory: Path, *offsets: int) -> None:
    for offset in offsets:
        (directory / f"{offset:020d}.snapshot").write_bytes(EMPTY)


@pytest.mark.parametrize(
    ("there", "bases", "kept"),
    [
        ([5, 2, 42], [5], [5, 42]),  # 42: the one that a clean stop left
        ([5, 2, 42], [42], [42]),
        ([5, 2, 42], [], [42]),
        ([1, 2, 3, 4], [1, 2, 4], [1, 2, 4]),
        ([7, 99, 5, 10, 13], [0, 5, 10], [5, 10, 99]),
    ],
)
def test_stray_snapshots_are_removed_but_not_that_of_a_clean_stop(
    tmp_path: Path, there: list[int], bases: list[int], kept: list[int]
) -> None:
    _touch(tmp_path, *there)
    files = SnapshotFiles(Disk(), tmp_path)

    files.remove_strays(bases)

    assert files.offsets == kept
    assert sorted(int(path.stem) for path in tmp_path.iterdir()) == kept


def test_a_snapshot_is_marked_for_deletion_by_its_name(tmp_path: Path) -> None:
    _touch(tmp_path, 5, 7)
    files = SnapshotFiles(Disk(), tmp_path)

    assert files.mark_deleted(5) == str(tmp_path / "00000000000000000005.snapshot.deleted")
    assert files.offsets == [7]
    assert (tmp_path / "00000000000000000005.snapshot.deleted").exists()
    assert files.mark_deleted(5) is None


def test_a_snapshot_that_is_gone_already_is_marked_in_peace(tmp_path: Path) -> None:
    _touch(tmp_path, 5)
    files = SnapshotFiles(Disk(), tmp_path)
    (tmp_path / "00000000000000000005.snapshot").unlink()

    assert files.mark_deleted(5) is None
    assert files.offsets == []


def test_another_refusal_to_rename_is_an_error(tmp_path: Path) -> None:
    _touch(tmp_path, 5)
    (tmp_path / "00000000000000000005.snapshot.deleted").mkdir()

    with pytest.raises(DiskError):
        SnapshotFiles(Disk(), tmp_path).mark_deleted(5)


def test_listing_finds_files_that_came_later_and_skips_what_is_no_snapshot(tmp_path: Path) -> None:
    _touch(tmp_path, 1)
    (tmp_path / "00000000000000000003.snapshot.deleted").write_bytes(EMPTY)
    (tmp_path / "00000000000000000004.snapshot").mkdir()
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    assert SnapshotFiles(Disk(), tmp_path).offsets == [1]

    _touch(tmp_path, 2)

    assert SnapshotFiles(Disk(), tmp_path).offsets == [1, 2]
    assert SnapshotFiles(Disk(), tmp_path, [9, 8]).offsets == [8, 9]


def test_a_moved_directory_takes_its_snapshots_along(producers: Producers, tmp_path: Path) -> None:
    producers.append(1, 0, 0)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    producers.state.snapshots.move(elsewhere)

    assert producers.state.take_snapshot() == str(elsewhere / "00000000000000000001.snapshot")
