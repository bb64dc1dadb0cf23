"""A compaction on Spark leaves the files of the cleaner in this process."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stratalog.config import ManagerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.engine.engine import Engine
from stratalog.errors import CorruptRecordError
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning import CleanResult
from stratalog.operations.compact import Compaction
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.work_report import WorkReport
from stratalog.spark.compaction import FEWEST_ROWS, SparkParts, key_parts
from stratalog.spark.engine import SparkEngine
from tests import profile
from tests.cli.compacting import SETTINGS
from tests.cli.planting import Planted
from tests.directory.recovery.recovering import files_of
from tests.kafka.cleaning import T0, DirtyHistory, OurCleaner
from tests.log.cleaning.test_distributed import BATCHES, clean, contents
from tests.log.model import NOW

# In history 9 a transaction of the first segment stays open: nothing of it is ever cleaned.
HISTORIES = [seed for seed in range(21) if seed != 9]


@pytest.mark.parametrize("seed", HISTORIES[: profile.examples(len(HISTORIES), quick=2, ci=2)])
def test_the_files_are_those_of_the_cleaner(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    history = DirtyHistory(seed)
    here, there = tmp_path / "here" / "dirty-0", tmp_path / "there" / "dirty-0"
    here.mkdir(parents=True)
    now_ms, first_dirty, records_gone = T0, 0, 0

    for _ in range({profile.DEEP: 2}.get(profile.current(), 1)):
        side = OurCleaner(here, history.config, now_ms)
        history.write(side.log, now_ms, BATCHES)
        history.end_transactions(side.log, now_ms)
        side.log.close()
        now_ms += history.random.choice([1, 1000, 5000, 200_000])
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(here, there)
        one, other = (OurCleaner(each, history.config, now_ms) for each in (here, there))
        if first_dirty >= one.first_uncleanable_offset:
            first_dirty = 0
        by_one = clean(one, first_dirty, None)
        with closing(SparkParts(SparkEngine(spark))) as parts:
            by_spark = clean(other, first_dirty, parts)
        one.log.close()
        other.log.close()

        if isinstance(by_one, CorruptRecordError):
            assert str(by_spark) == str(by_one)  # an old message that would have to stay empty
            return
        assert isinstance(by_spark, CleanResult)
        assert (by_spark.end_offset, by_spark.groups, by_spark.cleaned) == (
            by_one.end_offset,
            by_one.groups,
            by_one.cleaned,
        )
        assert contents(there) == contents(here)
        records_gone += by_one.stats.records_read - by_one.stats.records_written
        first_dirty = by_one.end_offset
    assert records_gone


def test_the_aggregation_had_8_parts_whatever_its_size() -> None:
    assert key_parts(0, 4) == 1
    assert key_parts(FEWEST_ROWS + 1, 4) == 2
    assert key_parts(10**7, 4) == 16  # every core has some
    assert key_parts(10**9, 4) == 500  # none is too large to sort
    assert all(
        key_parts(rows, cores) <= key_parts(rows + 10**6, cores)
        for rows in range(0, 10**8, 10**6)
        for cores in (1, 7)
    )


def test_the_parts_are_those_of_the_aggregation(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.spark.compaction.FEWEST_ROWS", 10)
    asked: list[int] = []

    def counted(rows_count: int, cores: int) -> int:
        asked.append(rows_count)
        return key_parts(rows_count, cores)

    monkeypatch.setattr("stratalog.spark.compaction.key_parts", counted)
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 43, keys=3)

    compact(planted, planted.data, SparkEngine(spark))

    assert asked == [40]


def test_a_dry_run_asks_the_workers_and_says_what_the_run_does(spark: SparkSession, tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 43, keys=3)
    before = planted.contents()
    asked: list[int] = []

    class Counted(SparkEngine):
        def run(self, function: Any, tasks: Any, **more: Any) -> Any:  # Any: only handed on
            asked.append(len(tasks))
            return super().run(function, tasks, **more)

    planned = compact(planted, planted.data, Counted(spark), dry_run=True)

    assert asked == [8]
    assert planted.contents() == before
    assert planned.totals() == compact(planted, planted.data, None, dry_run=True).totals()
    done = compact(planted, planted.data, SparkEngine(spark))
    assert [each.cleaned for each in done.partitions] == [each.cleaned for each in planned.partitions]


class LostSpark(SparkEngine):
    """The executors fail while they compact the topic b."""

    def run(self, function: Any, tasks: Any, **more: Any) -> Any:  # Any: only handed on
        if any("/b-0/" in task.files[0].path for task in tasks):
            return super().run(fail_hard, tasks, **more)
        return super().run(function, tasks, **more)


def fail_hard(_: DiskReader, task: object) -> None:
    raise RuntimeError(f"planted, not one of ours: {type(task).__name__}")


def test_an_error_of_spark_left_the_directory_unclean_and_ended_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Planted(tmp_path, a=SETTINGS, b=SETTINGS, c=SETTINGS) as planted:
        for topic in "abc":
            planted.fill(topic, 21, keys=3)

    report = compact(planted, planted.data, LostSpark(spark))

    assert [(each.name, each.error is None) for each in report.partitions] == [
        ("a-0", True),
        ("b-0", False),
        ("c-0", True),
    ]
    assert "planted, not one of ours" in str(report.partitions[1].error)
    assert json.loads((planted.data / ".kafka_cleanshutdown").read_text())
    assert not [path for path in planted.data.glob("*/*") if path.is_dir()]


def compact(planted: Planted, root: Path, engine: Engine | None, *, dry_run: bool = False) -> WorkReport:
    sources = TopicSources(topic_settings=planted.settings.read_text())
    work = Compaction(ManagerConfig(), engine=engine, rehearses=dry_run)
    maintenance = Maintenance(directories=[str(root)], sources=sources, clock=lambda: NOW, dry_run=dry_run)
    return maintenance.run(work)


def test_a_directory_is_compacted_as_by_threads_and_a_damaged_log_is_left_as_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Planted(tmp_path, t=SETTINGS, damaged=SETTINGS) as planted:
        planted.fill("t", 43, keys=3)
        planted.fill("damaged", 21, keys=3)
    log = planted.data / "damaged-0" / f"{5:020d}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1  # under the checksum of its first batch
    log.write_bytes(data)
    there = Path(shutil.copytree(planted.data, tmp_path / "there"))

    by_threads = compact(planted, planted.data, None)
    by_spark = compact(planted, there, SparkEngine(spark))

    assert by_spark.totals() == by_threads.totals()
    assert by_spark.totals()["partitions_compacted"] == 1
    (error,) = [each.error for each in by_spark.partitions if each.error is not None]
    assert f"{5:020d}.log at byte" in error
    assert files_of(there) == files_of(planted.data)
    assert json.loads((there / ".kafka_cleanshutdown").read_text())
