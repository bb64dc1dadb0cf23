"""Snapshots: Kafka's bytes both ways, which are kept, and what becomes of damaged ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stratalog.errors import CorruptSnapshotError, DiskError
from stratalog.files.disk import Disk
from stratalog.log.append import analyze
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.analysis import replay_batches
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.snapshot import build_snapshot, parse_snapshot
from stratalog.log.producers.snapshot_files import SnapshotFiles
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import byte_array
from stratalog.segment.producers import BatchMetadata
from tests.fixtures.catalog import Partition, partitions
from tests.log.producing import NOW, Producers

# What Kafka 4.3.1 wrote: of no producer, of two, of three.
EMPTY = bytes.fromhex("000148674bc700000000")
TWO = bytes.fromhex(
    "0001a5178d17000000020000000000000001000000000005000000000000000a0000000200000000000003e8ffffffffffffffff"
    "ffffffff0000000000000049000dffffffffffffffffffffffff0000000000000000000007d00000015b000000000000002a"
)
TWO_INSIDE = [
    ProducerStateEntry(1, producer_epoch=0, last_timestamp=1000, batches=[BatchMetadata(5, 10, 2, 1000)]),
    ProducerStateEntry(
        73, producer_epoch=13, coordinator_epoch=347, last_timestamp=2000, current_txn_first_offset=42
    ),
]
THREE = bytes.fromhex(
    "00012f4feb0e0000000300000000000000070004ffffffffffffffffffffffff0000000000000000000007d000000001ffffffff"
    "ffffffff000000000000000800000000000700000000000000060000000200000000000003eeffffffffffffffffffffffff0000"
    "00000000000900000000000000000000000000070000000000000000000003efffffffff0000000000000007"
)
THREE_INSIDE = [
    ProducerStateEntry(7, producer_epoch=4, coordinator_epoch=1, last_timestamp=2000),
    ProducerStateEntry(8, producer_epoch=0, last_timestamp=1006, batches=[BatchMetadata(7, 6, 2, 1006)]),
    ProducerStateEntry(
        9,
        producer_epoch=0,
        last_timestamp=1007,
        current_txn_first_offset=7,
        batches=[BatchMetadata(0, 7, 0, 1007)],
    ),
]
WRITTEN_AFTER = 1_750_000_000_000  # the clocks of the brokers that wrote the fixtures were past this
# Where compaction or deletion has taken batches away, a replay cannot find what the snapshot still knows.
REPLAYABLE = [
    partition
    for partition in partitions(state="clean")
    if not re.search("compacted|trimmed|short|__", partition.name)
]


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)


@pytest.mark.parametrize(("data", "inside"), [(EMPTY, []), (TWO, TWO_INSIDE), (THREE, THREE_INSIDE)])
def test_kafkas_snapshots_are_read_and_written_byte_for_byte(
    data: bytes, inside: list[ProducerStateEntry]
) -> None:
    assert parse_snapshot(data) == inside
    assert build_snapshot(inside) == data


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_every_snapshot_of_a_broker_reads_as_the_dump_tool_prints_it(partition: Partition) -> None:
    printed: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in partition.dump.read_text().splitlines():
        if line.startswith("Dumping "):
            lines = printed.setdefault(line.rpartition("/")[2], [])
        else:
            lines.append(line)

    for path in partition.path.glob("*.snapshot"):
        data = path.read_bytes()
        entries = parse_snapshot(data)
        assert [_as_dumped(entry) for entry in entries] == printed[path.name]
        assert build_snapshot(entries) == data


def _as_dumped(entry: ProducerStateEntry) -> str:
    first = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        f"{'OptionalLong.empty' if first is None else f'OptionalLong[{first}]'} "
        f"lastTimestamp: {entry.last_timestamp}"
    )
    for batch in entry.batches:
        line += (
            f" firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
        )
    return line


@pytest.mark.parametrize("partition", REPLAYABLE, ids=str)
def test_replaying_a_brokers_log_gives_the_snapshot_it_left(partition: Partition, tmp_path: Path) -> None:
    state = ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW)
    for log in partition.logs:
        info = analyze(
            log.read_bytes(), origin=AppendOrigin.REPLICATION, max_message_bytes=None, leader_epoch=2**31 - 1
        )
        base_offset = int(log.stem)
        snapshot = partition.path / f"{base_offset:020d}.snapshot"
        if snapshot.exists():
            assert _stored(state, snapshot) == _by_id(snapshot)
        replay_batches(state, info.data, info.batches)
    last = max(partition.path.glob("*.snapshot"))

    assert _stored(state, last) == _by_id(last)


def _stored(state: ProducerStateManager, theirs: Path) -> dict[int, ProducerStateEntry]:
    """The state as a snapshot keeps it, without those that the broker had forgotten when it wrote its own.

    Some records of the fixtures carry timestamps of years ago, and a broker forgets a producer after a day.
    """
    kept = _by_id(theirs)
    return {
        entry.producer_id: entry
        for entry in parse_snapshot(build_snapshot(state.producers.values()))
        if entry.producer_id in kept or entry.last_timestamp > WRITTEN_AFTER
    }


def _by_id(path: Path) -> dict[int, ProducerStateEntry]:
    return {entry.producer_id: entry for entry in parse_snapshot(path.read_bytes())}


def _with_crc(data: bytearray) -> bytes:
    data[2:6] = int(crc32c(byte_array(data), 6, len(data))).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "has 0 bytes"),
        (TWO[:9], "has 9 bytes"),
        (TWO[:-1], "has room for 1"),
        (TWO + b"\0", "CRC-32C"),
        (TWO[:20] + b"\xff" + TWO[21:], "CRC-32C"),
        (_with_crc(bytearray(b"\0\2" + TWO[2:])), "version is 2"),
        (_with_crc(bytearray(TWO[:6] + b"\xff" * 4 + TWO[10:])), "announces -1"),
        (_with_crc(bytearray(TWO[:6] + b"\x7f" * 4 + TWO[10:])), "has room for 2"),
    ],
)
def test_a_damaged_snapshot_says_what_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason):
        parse_snapshot(data)


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
