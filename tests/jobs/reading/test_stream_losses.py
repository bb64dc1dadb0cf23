"""What retention, truncation, deletion and compaction take from a stream, and what is no loss."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import OffsetOutOfRangeError
from stratalog.log.api.partition_log import PartitionLog
from tests.jobs.reading.making import Made
from tests.jobs.reading.streaming import NEW_ID, OLD_ID, Stream, append
from tests.jobs.reading.test_read import compact


def test_what_retention_took_is_data_loss(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(100))
    stream = Stream(tmp_path)
    stream.trigger(at_most=10)
    log.delete_records(60)

    with pytest.raises(
        OffsetOutOfRangeError, match="offset 10 is next, but the log now begins at 60"
    ) as lost:
        stream.trigger()
    assert (lost.value.offset, lost.value.valid) == (10, (60, 100))
    assert "failOnDataLoss=false" in str(lost.value)

    stream.restart(failOnDataLoss="false")
    assert stream.values() == values[60:]
    assert [(each.first_offset, each.end_offset) for each in stream.omitted] == [(10, 60)]


def test_a_start_that_a_broker_notes_while_the_stream_runs_is_seen(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(40))
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 5\n")
    stream = Stream(tmp_path)
    assert stream.values(at_most=10) == values[5:15]

    for start in (12, 30):
        replacement = tmp_path / "log-start-offset-checkpoint.tmp"
        replacement.write_text(f"0\n1\norders 0 {start}\n")
        replacement.replace(checkpoint)
        if start == 12:
            assert stream.values(at_most=1) == values[15:16]

    with pytest.raises(OffsetOutOfRangeError, match="offset 16 is next, but the log now begins at 30"):
        stream.trigger()


def test_retention_of_what_was_read_is_no_loss(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(100))
    stream = Stream(tmp_path)
    stream.trigger()
    log.delete_records(100)

    assert stream.values() == []
    assert append(log, 100) == stream.values()


def test_what_a_truncation_took_is_data_loss(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(30))
    stream = Stream(tmp_path)
    stream.trigger()
    log.truncate_to(20)

    with pytest.raises(OffsetOutOfRangeError, match="offset 30 is next, but the log now ends at 20"):
        stream.trigger()

    stream.restart(failOnDataLoss="false")
    assert stream.values() == []
    (omission,) = stream.omitted
    assert (omission.first_offset, omission.end_offset) == (30, None)
    assert "the log now ends at 20" in omission.why
    assert append(log, 20, 21) == stream.values()
    stream.restart(failOnDataLoss="true")
    assert append(log, 22) == stream.values()


def test_what_went_between_deciding_and_planning_is_data_loss(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(100))
    stream = Stream(tmp_path)
    end = stream.end()
    stream.restart()
    log.delete_records(60)

    with pytest.raises(
        OffsetOutOfRangeError, match="offsets 0 to 99 are to be read, but the log now begins at 60"
    ):
        stream.read(end)

    stream.restart(failOnDataLoss="false")
    assert [row["value"] for row in stream.read(end)] == values[60:]


def made_anew(tmp_path: Path, log: PartitionLog, *numbers: int) -> list[bytes]:
    """The topic deleted and created again: another id, and records that have nothing to do with the first."""
    log.close()
    shutil.rmtree(tmp_path / "orders-0")
    with stratalog.open_log(tmp_path / "orders-0", create=True, topic_id=NEW_ID) as again:
        return append(again, *numbers)


@pytest.mark.parametrize("count", [5, 50], ids=["shorter", "longer"])
def test_a_topic_made_anew_is_data_loss_however_long_it_is(
    log: PartitionLog, tmp_path: Path, count: int
) -> None:
    append(log, *range(30))
    stream = Stream(tmp_path)
    stream.trigger()
    values = made_anew(tmp_path, log, *range(1000, 1000 + count))

    stream.restart()
    with pytest.raises(OffsetOutOfRangeError, match=f"its id was {OLD_ID} and is now {NEW_ID}"):
        stream.trigger()

    stream.restart(failOnDataLoss="false")
    assert stream.values() == values
    stream.restart(failOnDataLoss="true")
    assert stream.values() == []


def test_a_topic_that_is_gone_is_data_loss(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(30))
    stream = Stream(tmp_path, subscribe="orders")
    stream.trigger()
    log.close()
    shutil.rmtree(tmp_path / "orders-0")

    with pytest.raises(OffsetOutOfRangeError, match=r"orders-0 in .*: its directory is gone"):
        stream.trigger()

    stream.restart(failOnDataLoss="false")
    assert stream.values() == []
    assert json.loads(stream.checkpoint) == {}


def test_a_partition_that_is_moved_is_waited_for(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(30))
    away = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    log.close()

    def comes_back(_: float) -> None:
        away.rename(tmp_path / "orders-0")

    stream = Stream(tmp_path, waits=comes_back)

    (tmp_path / "orders-0").rename(away)

    assert stream.values() == values


def test_a_segment_that_goes_while_it_is_planned_is_looked_for_again(
    log: PartitionLog, tmp_path: Path
) -> None:
    values = append(log, *range(100))
    stream = Stream(tmp_path, failOnDataLoss="false", startingOffsets='{"orders": {"0": 3}}')
    end = stream.end()
    first = min((tmp_path / "orders-0").glob("*.log"))
    next_base = int(sorted((tmp_path / "orders-0").glob("*.log"))[1].stem)
    log.delete_records(next_base)
    log.close()  # which may open its files again by their names
    first.rename(first.with_suffix(".log.deleted"))

    assert [row["value"] for row in stream.read(end)] == values[next_base:]


def test_a_log_that_is_compacted_under_a_stream_gives_what_is_left(own_log: Made) -> None:
    stream = Stream(own_log.path)
    rows = stream.trigger(at_most=500)
    kept = compact(own_log.path)

    for _ in range(100):
        rows += stream.trigger(at_most=40)

    left = set(kept) | set(range(500))
    assert [row["offset"] for row in rows] == sorted(left)
