"""What tasks write before a commit, and what becomes of it without one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import stratalog
from stratalog.errors import DiskError, UsageError
from stratalog.jobs.writing.stage import stage_rows
from tests import naive
from tests.jobs.writing.sinking import (
    Writing,
    arrow,
    contents_of,
    names_in,
    records_of,
    staged_in,
    values,
    write,
)

ORDERS = {"topic": "orders", "partitions": "1"}


def test_a_segment_is_no_larger_than_the_topic_says(tmp_path: Path) -> None:
    settings = '{"orders": {"internal.segment.bytes": 400}}'

    write(str(tmp_path), values(*[b"x" * 100] * 10), **ORDERS, batchSize="150", topicSettings=settings)

    sizes = [path.stat().st_size for path in sorted((tmp_path / "orders-0").glob("*.log"))]
    assert len(sizes) > 3
    assert max(sizes) <= 400
    assert len(records_of(contents_of(tmp_path), "orders-0")) == 10


def test_the_topics_codec_wins_over_the_writes(tmp_path: Path) -> None:
    settings = '{"a": {"compression.type": "gzip"}}'
    rows = {"topic": ["a", "b"], "value": [b"1", b"2"]}

    write(str(tmp_path), rows, partitions="1", compression="zstd", topicSettings=settings)

    logs = {topic: (tmp_path / f"{topic}-0" / f"{0:020d}.log").read_bytes() for topic in "ab"}
    assert {topic: naive.walk(data)[0][0].attributes & 7 for topic, data in logs.items()} == {"a": 1, "b": 4}


def test_what_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"a"))

    writing.committer.discard()

    assert names_in(tmp_path) == []


def test_a_staged_file_that_the_driver_does_not_see_is_told(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"a"))
    for path in tmp_path.glob("stratalog-write-*.log"):
        path.unlink()

    with pytest.raises(DiskError, match="must see the same log directory"):
        writing.commit()

    writing.committer.discard()
    assert names_in(tmp_path) == []


def test_what_a_killed_driver_left_is_cleared_a_day_later(tmp_path: Path) -> None:
    killed = Writing(str(tmp_path), **ORDERS)
    killed.task(values(b"lost"))
    later = Writing(str(tmp_path), **ORDERS)
    for path in tmp_path.glob("stratalog-write-*"):
        os.utime(path, (0, 0))
    later.clock.sleep(25 * 3_600_000)
    later.task(values(b"a"))

    later.commit()

    assert staged_in(tmp_path) == []


def test_a_task_keeps_no_file_open(tmp_path: Path) -> None:
    Writing(str(tmp_path), **ORDERS).task(values(b"a"))

    opened = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [link for link in opened if str(tmp_path) in str(link.resolve())] == []


@pytest.mark.parametrize("size", [1, 2 << 20], ids=["nothing is written yet", "a segment is open"])
@pytest.mark.parametrize("more", [[], [b"b"]], ids=["behind its last row", "before it"])
def test_a_task_leaves_nothing_when_its_write_has_ended(tmp_path: Path, size: int, more: list[bytes]) -> None:
    writing = Writing(str(tmp_path), **ORDERS)

    def batches() -> Iterator[pa.RecordBatch]:
        yield arrow(values(*[b"a" * 1000] * (size // 1000 + 1)))
        for name in staged_in(tmp_path):  # as the driver does, which is another process: files stay open here
            (tmp_path / name).unlink()
        yield arrow(values(*more))

    with pytest.raises(UsageError, match="has ended"):
        stage(writing, batches())
    assert names_in(tmp_path) == []


def test_a_task_that_starts_when_its_write_has_ended_leaves_nothing(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **ORDERS)
    writing.committer.discard()

    with pytest.raises(UsageError, match="has ended"):
        stage(writing, [arrow(values(b"a"))])
    assert names_in(tmp_path) == []


def stage(writing: Writing, batches: Iterable[pa.RecordBatch]) -> None:
    stage_rows(
        writing.disk,
        writing.target,
        batches,
        write=writing.name,
        attempt="0",
        turn=0,
        clock=writing.clock,
    )


SEVEN = {"topic": "orders", "partitions": "7"}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_grows_when_it_is_compressed_is_put_into_smaller_batches(tmp_path: Path, codec: str) -> None:
    found = [random.Random(number).randbytes(400) for number in range(100)]
    settings = '{"orders": {"max.message.bytes": 880}}'  # two records, and a byte
    topic = {"topic": "orders", "partitions": "1", "topicSettings": settings}

    report = write(str(tmp_path), {"value": found}, compression=codec, **topic)

    batches, _, _ = naive.walk((tmp_path / "orders-0" / f"{0:020d}.log").read_bytes())
    assert report.records_count == 100
    assert sum(batch.records_count for batch in batches) == 100
    assert max(batch.size for batch in batches) <= 880
    with stratalog.open_log(tmp_path / "orders-0", read_only=True) as log:
        assert [record.value for record in log.records()] == found


def test_a_record_that_no_segment_could_hold_is_told(tmp_path: Path) -> None:
    settings = '{"orders": {"internal.segment.bytes": 400}}'

    with pytest.raises(UsageError, match=r"the topic allows 400 \(segment.bytes\)"):
        Writing(str(tmp_path), **SEVEN, topicSettings=settings).task({"value": [b"x" * 400]})
