"""The walk over whole directories, held to what Kafka's own classes read in the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stratalog.engine.threads import ThreadEngine
from stratalog.files.disk import Disk
from stratalog.jobs.walk import by_topic, plan_walk, walk_logs
from stratalog.segment import headers
from tests.fixtures.catalog import Partition, log_dirs, partitions
from tests.jobs.walking import ROLLED, walk_file


def first_time(batch: dict[str, Any]) -> int:
    """The earliest time that a walk can know of: the first record's of a batch, all of an old wrapper's.

    The batch's largest stands in for it where compaction has put the delete horizon in its place.
    """
    times = [record["timestamp"] for record in batch["records"]]
    if batch["deleteHorizonMs"] is not None:
        return int(batch["maxTimestamp"])
    return min(times if batch["magic"] < 2 else times[:1], default=-1)


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
