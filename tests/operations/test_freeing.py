"""What retention frees next, and the growth a day."""

from __future__ import annotations

import shutil
from pathlib import Path

from stratalog.config import LogConfig
from stratalog.log.retention import Marks, SegmentFacts, decide
from stratalog.operations.freeing import (
    DAY_MS,
    NextFreed,
    SegmentSpan,
    added,
    growth_a_day,
    next_freed,
    spans_of,
)
from tests.fixtures.catalog import partitions
from tests.log.model import NOW

SEGMENTS = [SegmentFacts(0, 100, NOW - 3000), SegmentFacts(10, 200, NOW - 2000), SegmentFacts(20, 50, NOW)]
MARKS = Marks(0, 30, 30)


def freed(**settings: object) -> NextFreed:
    config = LogConfig.of({key.replace("_", "."): value for key, value in settings.items()})
    return next_freed(decide(SEGMENTS, MARKS, config, NOW))


def test_the_oldest_segment_that_stays_goes_when_its_newest_record_is_too_old() -> None:
    assert freed(retention_ms=2500) == NextFreed(100, 200, next_ms=NOW - 2000 + 2500 + 1)
    assert freed(retention_ms=10_000) == NextFreed(0, 100, next_ms=NOW - 3000 + 10_000 + 1)


def test_segments_that_go_at_the_same_time_are_added_up() -> None:
    segments = [SegmentFacts(0, 100, NOW), SegmentFacts(10, 200, NOW - 2000)]
    decisions = decide(segments, Marks(0, 20, 20), LogConfig.of({"retention.ms": 5000}), NOW)

    assert next_freed(decisions) == NextFreed(0, 300, next_ms=NOW + 5001)


def test_by_size_alone_it_depends_on_the_growth() -> None:
    assert freed(retention_ms=-1, retention_bytes=300) == NextFreed(0, 100, next_growth=50)
    assert freed(retention_ms=-1, retention_bytes=250) == NextFreed(100, 200, next_growth=200)


def test_without_a_limit_nothing_goes() -> None:
    assert freed(retention_ms=-1) == NextFreed()
    assert freed(cleanup_policy="compact") == NextFreed()


def test_of_several_logs_the_first_time_counts() -> None:
    parts = [
        NextFreed(1, 10, next_ms=NOW + 5),
        NextFreed(2, 20, next_ms=NOW),
        NextFreed(0, 30, next_ms=NOW),
        NextFreed(0, 7, next_growth=1),
    ]

    assert added(parts) == NextFreed(3, 50, next_ms=NOW)
    assert added(parts[3:]) == NextFreed(0, 7, next_growth=1)
    assert added([]) == NextFreed()


def test_growth_is_the_bytes_of_the_span_that_the_records_cover() -> None:
    half = [SegmentSpan(NOW, NOW + DAY_MS // 4, 100), SegmentSpan(NOW + DAY_MS // 4, NOW + DAY_MS // 2, 300)]

    assert growth_a_day(half) == 800
    assert growth_a_day([SegmentSpan(NOW, NOW + 60_000, 100)]) is None
    assert growth_a_day([]) is None


def test_only_the_last_week_counts(tmp_path: Path) -> None:
    from tests.cli.planting import Planted

    with Planted(tmp_path, orders={}) as planted:
        for day in (-100, -60, -9, -4, 0):
            log = planted.fill("orders", 5, timestamp=NOW + day * DAY_MS)
        spans = spans_of([segment.reader for segment in log.segments])

    assert [(span.last_ms - NOW) // DAY_MS for span in spans] == [0, -4, -9]
    assert growth_a_day(spans) == sum(span.size for span in spans) // 9


def test_a_batch_that_covers_days_is_spread_over_them(tmp_path: Path) -> None:
    import stratalog
    from stratalog.clock import system_clock
    from stratalog.files.disk import Disk
    from stratalog.files.names import TopicPartition
    from stratalog.log.api.view import LogView
    from stratalog.log.new_records import NewRecord

    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([NewRecord(b"v" * 100, b"k", (), NOW + hour * 3_600_000) for hour in range(73)])
    (segment,) = LogView(
        disk=Disk(),
        clock=system_clock,
        directory=tmp_path / "orders-0",
        topic_partition=TopicPartition("orders", 0),
        config=LogConfig(),
    ).segments

    assert growth_a_day(spans_of([segment])) == segment.size // 3


def test_the_times_of_real_segments_are_those_of_their_batches(tmp_path: Path) -> None:
    from stratalog.clock import system_clock
    from stratalog.files.disk import Disk
    from stratalog.files.names import TopicPartition
    from stratalog.log.api.view import LogView

    (partition,) = [each for each in partitions("4.3.1", "clean") if each.name == "codecs-0"]
    copy = shutil.copytree(partition.path, tmp_path / partition.name)
    view = LogView(
        disk=Disk(),
        clock=system_clock,
        directory=copy,
        topic_partition=TopicPartition("codecs", 0),
        config=LogConfig(),
    )

    spans = spans_of(tuple(view.segments))

    log = partition.logs[-1]
    batches = list(partition.batches(log))
    assert spans[0].size == log.stat().st_size
    assert spans[0].first_ms == batches[0]["records"][0]["timestamp"]
    assert spans[0].last_ms == max(batch["maxTimestamp"] for batch in batches)
