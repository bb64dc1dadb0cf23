"""The walk over whole directories, held to what Kafka's own classes read in the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stratalog.engine.threads import ThreadEngine
from stratalog.files.disk import Disk
from stratalog.files.reading import DiskReader
from stratalog.jobs.damage import DamageKind
from stratalog.jobs.walk import SegmentWalk, WalkTask, by_topic, plan_walk, walk_logs, walk_segment
from stratalog.segment import headers
from tests.fixtures.catalog import Partition, log_dirs, partitions

ROLLED = next(partition for partition in partitions("4.3.1", "clean") if partition.name == "rolled-0")


def walk_file(path: Path, *, is_active: bool = True) -> SegmentWalk:
    size = path.stat().st_size
    return walk_segment(
        DiskReader(),
        WalkTask(path=str(path), topic="t", partition=0, base_offset=0, size=size, is_active=is_active),
    )


def first_time(batch: dict[str, Any]) -> int:
    """The earliest time that a walk can know of: the first record's of a batch, all of an old wrapper's.

    The batch's largest stands in for it where compaction has put the delete horizon in its place.
    """
    times = [record["timestamp"] for record in batch["records"]]
    if batch["deleteHorizonMs"] is not None:
        return int(batch["maxTimestamp"])
    return min(times if batch["magic"] < 2 else times[:1], default=-1)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A copy of a segment that a broker wrote."""
    copy = tmp_path / "rolled-0" / ROLLED.logs[0].name
    copy.parent.mkdir()
    copy.write_bytes(ROLLED.logs[0].read_bytes())
    return copy


@pytest.fixture
def batches(segment: Path) -> list[dict[str, Any]]:
    """What Kafka read in it."""
    return list(ROLLED.batches(segment))


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_a_walk_sees_what_kafka_reads(partition: Partition) -> None:
    for log in partition.logs:
        seen, batches = walk_file(log), list(partition.batches(log))

        assert seen.damages == ()
        assert seen.size == log.stat().st_size
        assert seen.batches_count == len(batches)
        assert seen.records_count == sum(len(batch["records"]) for batch in batches)
        assert set(seen.codecs) == {batch["codec"] for batch in batches}
        if batches:
            assert seen.last_offset == max(batch["lastOffset"] for batch in batches)
            assert seen.last_timestamp == max(batch["maxTimestamp"] for batch in batches)
            times = [first_time(batch) for batch in batches if first_time(batch) >= 0]
            assert seen.first_timestamp == min(times, default=-1)


@pytest.mark.parametrize("partition", partitions(), ids=str)
@pytest.mark.parametrize("chunk_size", [4096, 5000])
def test_a_small_buffer_sees_the_same(
    partition: Partition, chunk_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [walk_file(log) for log in partition.logs]
    monkeypatch.setattr(headers, "CHUNK_SIZE", chunk_size)

    assert [walk_file(log) for log in partition.logs] == whole


@pytest.mark.parametrize("log_dir", log_dirs(), ids=lambda path: "-".join(path.parts[-3:-1]))
def test_the_plan_has_every_live_segment_in_order(log_dir: Path) -> None:
    tasks = plan_walk(Disk(), [log_dir])

    live = [path for path in log_dir.glob("*/*.log") if not path.parent.name.endswith("-delete")]
    assert sorted(task.path for task in tasks) == sorted(map(str, live))
    assert [task.size for task in tasks] == [Path(task.path).stat().st_size for task in tasks]
    places = [(task.topic, task.partition, task.base_offset) for task in tasks]
    assert places == sorted(places)


def test_names_that_no_broker_gives_are_left_out(segment: Path) -> None:
    log_dir = segment.parent.parent
    (log_dir / "lost+found").mkdir()
    (log_dir / "a-0").write_text("a file where a partition would be")
    (segment.parent / "notes.log").write_text("no offset in the name")
    (segment.parent / f"{segment.name}.deleted").write_text("waits for its end")

    assert [task.path for task in plan_walk(Disk(), [log_dir])] == [str(segment)]


def test_two_log_directories_are_one_walk() -> None:
    both = walk_logs(ThreadEngine(), Disk(), log_dirs("4.3.1"))

    names = {topic.topic for topic in by_topic(both)}
    assert {"rolled", "codecs", "__consumer_offsets"} <= names
    assert "short-lived" not in names


def test_topics_add_their_segments_up() -> None:
    rolled = next(
        topic
        for topic in by_topic(walk_logs(ThreadEngine(), Disk(), [ROLLED.path.parent]))
        if topic.topic == "rolled"
    )
    batches = list(ROLLED.batches())

    assert rolled.segments_count == len(ROLLED.logs)
    assert rolled.partitions_count == 1
    assert rolled.records_count == sum(len(batch["records"]) for batch in batches)
    assert rolled.size == sum(log.stat().st_size for log in ROLLED.logs)
    assert rolled.first_offset == batches[0]["baseOffset"]
    assert rolled.last_offset == max(batch["lastOffset"] for batch in batches)


def test_a_flipped_bit_costs_one_batch(segment: Path, batches: list[dict[str, Any]]) -> None:
    broken = batches[1]
    data = bytearray(segment.read_bytes())
    data[broken["position"] + broken["size"] - 1] ^= 1
    segment.write_bytes(data)

    seen = walk_file(segment)

    (damage,) = seen.damages
    assert (damage.position, damage.lost_size) == (broken["position"], broken["size"])
    assert damage.kind is DamageKind.WRONG_CRC
    assert f"its header says {broken['crc']:#010x}" in damage.reason
    assert seen.batches_count == len(batches) - 1


def test_neighbouring_bad_batches_are_one_damage(segment: Path, batches: list[dict[str, Any]]) -> None:
    data = bytearray(segment.read_bytes())
    for broken in batches[1:3]:
        data[broken["position"] + broken["size"] - 1] ^= 1
    segment.write_bytes(data)

    (damage,) = walk_file(segment).damages

    assert damage.position == batches[1]["position"]
    assert damage.lost_size == batches[1]["size"] + batches[2]["size"]


@pytest.mark.parametrize("missing", [1, 40, 60])
def test_a_torn_tail_starts_where_the_last_batch_does(
    segment: Path, batches: list[dict[str, Any]], missing: int
) -> None:
    segment.write_bytes(segment.read_bytes()[:-missing])

    (damage,) = walk_file(segment).damages

    assert damage.kind is DamageKind.TORN_TAIL
    assert damage.position == batches[-1]["position"]
    assert damage.lost_size == batches[-1]["size"] - missing


@pytest.mark.parametrize("zeros_size", [18, 4096, 100_000])
def test_zeros_behind_the_last_batch_are_told_from_a_bad_length(segment: Path, zeros_size: int) -> None:
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(bytes(zeros_size))

    (damage,) = walk_file(segment).damages

    assert (damage.kind, damage.position, damage.lost_size) == (DamageKind.ZEROS, size, zeros_size)


def test_zeros_with_something_behind_them_are_a_bad_length(segment: Path) -> None:
    with segment.open("ab") as file:
        file.write(bytes(100_000) + b"x")

    (damage,) = walk_file(segment).damages

    assert damage.kind is DamageKind.BAD_LENGTH


def test_foreign_bytes_cost_the_rest_of_the_file(segment: Path, batches: list[dict[str, Any]]) -> None:
    data = bytearray(segment.read_bytes())
    at = batches[2]["position"]
    data[at : at + 50] = b"2026-03-01 04:12:09,113 WARN somebody else's line\n"
    segment.write_bytes(data)

    seen = walk_file(segment)

    (damage,) = seen.damages
    assert (damage.kind, damage.position, damage.end) == (DamageKind.BAD_MAGIC, at, len(data))
    assert seen.batches_count == 2


def test_bytes_cut_out_are_one_damage_to_the_end(segment: Path, batches: list[dict[str, Any]]) -> None:
    data = segment.read_bytes()
    at = batches[1]["position"]
    segment.write_bytes(data[: at + 70] + data[at + 80 :])

    (damage,) = walk_file(segment).damages

    assert (damage.position, damage.end) == (at, len(data) - 10)


def test_a_length_that_lies_does_not_end_the_walk_early(
    segment: Path, batches: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "CHUNK_SIZE", 4096)
    data = bytearray(segment.read_bytes() + bytes(20_000))
    at = batches[-1]["position"] + 8
    data[at : at + 4] = (2**30).to_bytes(4, "big")
    segment.write_bytes(data)

    (damage,) = walk_file(segment).damages

    assert (damage.kind, damage.position, damage.end) == (
        DamageKind.TORN_TAIL,
        batches[-1]["position"],
        len(data),
    )


def test_a_segment_that_is_not_the_last_is_not_torn_but_damaged(
    segment: Path, batches: list[dict[str, Any]]
) -> None:
    segment.write_bytes(segment.read_bytes()[:-1])

    (damage,) = walk_file(segment, is_active=False).damages

    assert (damage.kind, damage.position) == (DamageKind.BAD_LENGTH, batches[-1]["position"])


def test_a_length_that_lies_costs_no_memory(
    segment: Path, batches: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(segment.read_bytes())
    at = batches[1]["position"] + 8
    data[at : at + 4] = (2**30).to_bytes(4, "big")
    segment.write_bytes(data + bytes(8 << 20))
    made: list[int] = []
    real = headers.aligned_buffer
    monkeypatch.setattr(headers, "aligned_buffer", lambda size: made.append(size) or real(size))

    walk_file(segment)

    assert max(made) <= headers.CHUNK_SIZE


def test_an_empty_segment_is_fine(tmp_path: Path) -> None:
    empty = tmp_path / "00000000000000000000.log"
    empty.touch()

    seen = walk_file(empty)

    assert (seen.batches_count, seen.first_offset, seen.last_timestamp, seen.damages) == (0, -1, -1, ())
