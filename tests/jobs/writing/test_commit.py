"""What a write leaves in the logs, and what it leaves alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

import stratalog
from stratalog import format_directories
from stratalog.errors import LogDirLockedError, UsageError
from stratalog.files.lock import DirectoryLock
from stratalog.log.partition_metadata import topic_id_to_text
from tests import naive
from tests.fixtures.catalog import log_dirs
from tests.jobs.writing.sinking import (
    Writing,
    by_partition,
    contents_of,
    names_in,
    offsets_and_values,
    records_of,
    staged_in,
    values,
    write,
)
from tests.manager.running import MARKER, checkpoint

ORDERS = {"topic": "orders", "partitions": "1"}


def test_offsets_go_on_from_task_to_task_and_from_write_to_write(tmp_path: Path) -> None:
    write(str(tmp_path), values(b"a", b"b"), values(b"c"), **ORDERS)
    report = write(str(tmp_path), values(b"d"), **ORDERS)

    assert report.records_count == 1
    assert list(report.ends.values()) == [4]
    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
        (3, b"d"),
    ]
    assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {"orders-0": 4}
    assert checkpoint(tmp_path, "replication-offset-checkpoint") == {"orders-0": 4}


def test_nothing_but_logs_checkpoints_the_marker_and_the_number_of_partitions_is_left(tmp_path: Path) -> None:
    write(str(tmp_path), values(b"a"), **ORDERS)

    assert names_in(tmp_path) == [
        MARKER,
        ".lock",
        "orders-0",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "stratalog-topics.json",
    ]
    assert names_in(tmp_path / "orders-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_a_write_goes_on_in_the_epoch_of_the_last_leader(tmp_path: Path) -> None:
    write(str(tmp_path), values(b"a"), **ORDERS)
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 1\n")

    write(str(tmp_path), values(b"b"), **ORDERS)

    batches, _, _ = naive.walk((tmp_path / "orders-0" / f"{1:020d}.log").read_bytes())
    assert [batch.partition_leader_epoch for batch in batches] == [7]
    assert all(batch.valid for batch in batches)


def test_indexes_are_the_ones_that_kafka_would_have_built(tmp_path: Path) -> None:
    settings = '{"orders": {"index.interval.bytes": 100}}'
    rows = {"value": [b"x" * 40] * 30, "timestamp": [1_000_000 * (7 * n % 30) for n in range(30)]}
    write(str(tmp_path), rows, **ORDERS, batchSize="150", topicSettings=settings)

    folder = tmp_path / "orders-0"
    batches, _, _ = naive.walk((folder / f"{0:020d}.log").read_bytes())
    offsets, times, since, largest = [], [], 0, (-1, 0)
    for batch in batches:
        if batch.max_timestamp > largest[0]:
            largest = (batch.max_timestamp, batch.last_offset)
        if since > 100:
            offsets.append((batch.last_offset, batch.position))
            if not times or largest[0] > times[-1][0]:
                times.append(largest)
            since = 0
        since += batch.size
    if not times or largest[0] > times[-1][0]:
        times.append(largest)
    assert len(offsets) > 5
    assert (folder / f"{0:020d}.index").read_bytes() == b"".join(
        offset.to_bytes(4, "big") + position.to_bytes(4, "big") for offset, position in offsets
    )
    assert (folder / f"{0:020d}.timeindex").read_bytes() == b"".join(
        timestamp.to_bytes(8, "big") + offset.to_bytes(4, "big") for timestamp, offset in times
    )


def test_keys_values_headers_and_times_come_back(tmp_path: Path) -> None:
    rows = {
        "key": [b"k", None],
        "value": [None, b"v"],
        "timestamp": [1_600_000_000_123_456, None],
        "headers": [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None],
    }
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(rows)
    writing.commit()

    assert records_of(contents_of(tmp_path), "orders-0") == [
        naive.Record(0, 1_600_000_000_123, b"k", None, ((b"h", b"1"), (b"h", None))),
        naive.Record(1, writing.clock(), None, b"v", ()),
    ]


def test_log_append_time_is_the_time_of_the_write(tmp_path: Path) -> None:
    settings = '{"orders": {"message.timestamp.type": "LogAppendTime"}}'
    writing = Writing(str(tmp_path), **ORDERS, topicSettings=settings)
    writing.task({"value": [b"a"], "timestamp": [5_000]})
    writing.commit()

    assert [record.timestamp for record in records_of(contents_of(tmp_path), "orders-0")] == [writing.clock()]


def test_a_broker_s_directory_keeps_its_marker_and_its_epoch(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(log_dirs("4.3.1", "clean")[0], data)
    epoch = (data / MARKER).read_bytes()
    before = contents_of(data)

    report = write(str(data), values(b"a"), topic="codecs")

    ((key, end),) = report.ends.items()
    assert (data / MARKER).read_bytes() == epoch
    after = contents_of(data)
    assert {path for path in before if before[path] != after.get(path)} <= {
        str(data / "recovery-point-offset-checkpoint"),
        str(data / "replication-offset-checkpoint"),
    }
    with stratalog.open_log(data / str(key), read_only=True) as log:
        assert log.end_offset == end


def test_a_marker_that_says_no_epoch_says_none_afterwards(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(log_dirs("4.3.1", "clean")[0], data)
    (data / MARKER).write_bytes(b'{"version":0}')

    write(str(data), values(b"a"), topic="codecs")

    assert (data / MARKER).read_bytes() == b'{"version":0}'


def test_a_batch_of_a_stream_is_written_once(tmp_path: Path) -> None:
    for batch in (0, 1, 1, 0):
        writing = Writing(str(tmp_path), **ORDERS)
        writing.task(values(b"%d" % batch))
        report = writing.commit(query="q", batch=batch)

    assert report.was_there
    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"0"), (1, b"1")]
    assert staged_in(tmp_path) == []


def test_two_streams_do_not_know_each_other(tmp_path: Path) -> None:
    for query in ("q", "r"):
        writing = Writing(str(tmp_path), **ORDERS)
        writing.task(values(query.encode()))
        writing.commit(query=query, batch=0)

    assert by_partition(contents_of(tmp_path), "orders") == {0: [b"q", b"r"]}


def test_a_topic_id_is_written_with_the_first_record(tmp_path: Path) -> None:
    topic_id = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)

    write(str(tmp_path), values(b"a"), **ORDERS, topicId=topic_id_to_text(topic_id))

    text = (tmp_path / "orders-0" / "partition.metadata").read_text()
    assert text.splitlines() == ["version: 0", f"topic_id: {topic_id_to_text(topic_id)}"]


def test_a_directory_in_use_is_refused_and_nothing_is_done(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"a"))

    with DirectoryLock(tmp_path), pytest.raises(LogDirLockedError):
        writing.commit()

    assert not (tmp_path / "orders-0").exists()


def test_a_directory_in_use_is_refused_before_anything_is_staged(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(LogDirLockedError):
        Writing(str(tmp_path), **ORDERS)


def test_an_unclean_directory_is_recovered_first(tmp_path: Path) -> None:
    write(str(tmp_path), values(b"a"), **ORDERS)
    (tmp_path / MARKER).unlink()
    log = tmp_path / "orders-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + b"\0" * 7)  # a torn batch
    (tmp_path / "recovery-point-offset-checkpoint").unlink()

    write(str(tmp_path), values(b"b"), **ORDERS)

    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a"), (1, b"b")]


def test_a_write_may_go_to_many_topics(tmp_path: Path) -> None:
    rows = {"topic": ["b", "a", "b"], "value": [b"1", b"2", b"3"]}

    write(str(tmp_path), rows, partitions='{"a": 1, "b": 1}')

    assert by_partition(contents_of(tmp_path), "a") == {0: [b"2"]}
    assert by_partition(contents_of(tmp_path), "b") == {0: [b"1", b"3"]}


def test_a_topic_that_was_made_anew_meanwhile_gets_nothing(tmp_path: Path) -> None:
    write(str(tmp_path), values(b"a"), **ORDERS, topicId="CVmmc5E3Svq-PtfZ062cfg")
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"b"))
    metadata = tmp_path / "orders-0" / "partition.metadata"
    metadata.write_text(metadata.read_text().replace("CVmmc5E3Svq-PtfZ062cfg", "b3JkZXJzLW1hZGUtYW5ldw"))

    with pytest.raises(UsageError, match="the topic was deleted and created again"):
        writing.commit()
    writing.committer.discard()
    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a")]
    assert staged_in(tmp_path) == []


def test_a_partition_that_no_cluster_knows_was_written_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = write(str(tmp_path), values(b"a"), **ORDERS)
    again = write(str(tmp_path), values(b"b"), **ORDERS)

    assert new.warning is not None
    assert new.warning.startswith(f"orders-0 in {tmp_path}: no cluster knows these new partitions")
    assert f"Run `stratalog format {tmp_path}` before a broker is started here." in new.warning
    assert [record.getMessage() for record in caplog.records if "no cluster" in record.message] == [
        new.warning
    ]
    assert again.warning is None, "it is told once"


def test_a_partition_in_a_clusters_directory_without_its_metadata_is_told_of_too(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=sEiga6BNSJaW_7X41bWJDQ\n")

    report = write(str(tmp_path), values(b"a"), topicId="s38DPPefRHu4CKwEjdBcXA", **ORDERS)

    assert report.warning is not None
    assert "create the topic on the broker, stop the broker, write, and start it again" in report.warning


def test_a_partition_that_the_cluster_knows_is_written_without_a_warning(tmp_path: Path) -> None:
    write(str(tmp_path), values(b"a"), **ORDERS)
    format_directories([tmp_path])

    report = write(str(tmp_path), values(b"b"), topic="orders")

    assert report.warning is None
    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a"), (1, b"b")]
    assert not (tmp_path / "stratalog-topics.json").exists()
