"""What a scan reads: planned step by step, narrowed by a query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.narrowing import Narrowing, Wanted, everything
from stratalog.jobs.reading.omissions import ignore_omission
from stratalog.log.new_records import NewRecord
from stratalog.scanning import sources
from stratalog.scanning.asking import read_options
from stratalog.scanning.sources import RecordSource

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions of 1,000 records each, a second apart, in small segments."""
    root = tmp_path_factory.mktemp("sources")
    config = {"internal.segment.bytes": 10_000, "index.interval.bytes": 500}
    for partition in range(3):
        with stratalog.open_log(root / f"orders-{partition}", create=True, config=config) as log:
            for start in range(0, 1000, 5):
                numbers = range(start, start + 5)
                log.append_many([NewRecord(b"v" * 20, b"key", (), T0 + 1000 * each) for each in numbers])
    return root


def read(
    log_dir: Path,
    narrowing: Narrowing = everything,
    *,
    columns: Sequence[str] = ("partition", "offset"),
    threads: int = 2,
) -> list[tuple[int, int]]:
    source = RecordSource.of(read_options(log_dir), threads)
    batches = source.batches(columns, narrowing=narrowing, on_omission=ignore_omission)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("task_size", [1, 3000, 25_000, 1 << 20])
def test_tasks_of_any_size_give_each_record_once_and_in_order(
    log_dir: Path, task_size: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "TASK_SIZE", task_size)
    monkeypatch.setattr(sources, "TASK_SIZE_ALONE", task_size)

    assert read(log_dir, threads=threads) == [
        (partition, offset) for partition in range(3) for offset in range(1000)
    ]


def test_partitions_and_offsets_that_a_query_cannot_want_are_not_read(log_dir: Path) -> None:
    def wanted(partition: TopicPartition) -> Wanted | None:
        return None if partition.partition == 1 else Wanted(first_offset=100, last_offset=102)

    assert read(log_dir, wanted) == [
        (partition, offset) for partition in (0, 2) for offset in (100, 101, 102)
    ]


def test_times_that_a_query_cannot_want_are_not_read(log_dir: Path) -> None:
    found = read(log_dir, lambda _: Wanted(since_ms=T0 + 998_000))

    assert found == [(partition, offset) for partition in range(3) for offset in (998, 999)]


def test_without_columns_rows_are_counted(log_dir: Path) -> None:
    source = RecordSource.of(read_options(log_dir), 1)
    batches = list(source.batches((), narrowing=everything, on_omission=ignore_omission))

    assert sum(batch.num_rows for batch in batches) == 3000
    assert {batch.num_columns for batch in batches} == {0}


def test_what_is_not_there_is_refused(log_dir: Path) -> None:
    with pytest.raises(UsageError, match="bills"):
        RecordSource.of(read_options(log_dir, topics="bills"), 1)
