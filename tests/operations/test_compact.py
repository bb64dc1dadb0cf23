"""What `compact` cleans, and what it leaves alone."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from stratalog.config import ManagerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.engine.engine import Result, Task, TaskFunction, TaskOutcome
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import DiskError, OtherFileError, StratalogError
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.clean import DirtyLog, Replace
from stratalog.log.cleaning.distributed import CleaningPlan, RewrittenGroup, clean_in_parts
from stratalog.log.cleaning.results import CleanResult
from stratalog.log.cleaning.transactions import OpenData
from stratalog.operations import rehearsing
from stratalog.operations.compact import Compaction
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.read_progress import CountRead
from stratalog.operations.work_report import WorkReport
from tests.cli.compacting import SETTINGS, run
from tests.cli.planting import EPOCH, MARKER, Planted
from tests.log.cleaning.in_parts import PartsHere
from tests.log.model import NOW, read_all
from tests.manager.running import checkpoint, fixture_copy


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=3)
    return planted


def test_a_small_map_takes_several_passes_to_the_same_records(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleaner.dedupe.buffer.size=96\n")  # four slots, three keys

    assert run(planted, "--config", properties, "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert partition["cleaned"]["end_offset"] == 20
    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == [17, 18, 19, 20]


def test_many_keys_and_a_small_map_take_several_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 10, keys=10)
        planted.fill("t", 11, keys=10)
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleaner.dedupe.buffer.size=96\n")

    assert run(planted, "--config", properties, "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert partition["cleaned"]["passes"] > 1
    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == list(range(10, 21))


def test_logs_that_are_not_compacted_are_left_alone(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS, plain={"retention.ms": 0}) as planted:
        planted.fill("t", 11)
        planted.fill("plain", 11, timestamp=NOW - 10)
    before = [planted.contents()[name] for name in planted.contents() if name.startswith("plain-0/")]

    assert run(planted) == 0

    assert [planted.contents()[name] for name in planted.contents() if name.startswith("plain-0/")] == before


def test_with_both_policies_old_segments_go_too(tmp_path: Path) -> None:
    settings = {**SETTINGS, "cleanup.policy": "compact,delete", "retention.ms": 1000}
    with Planted(tmp_path, t=settings) as planted:
        planted.fill("t", 10, keys=10, timestamp=NOW - 5000)
        planted.fill("t", 6, keys=6, timestamp=NOW)

    assert run(planted) == 0

    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == list(range(10, 16))


def test_nothing_above_the_checkpointed_high_watermark_is_cleaned(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=1, high_watermark=12)

    assert run(planted) == 0

    with planted:
        assert [record.offset for record in read_all(planted.log("t"))] == [9, *range(10, 21)]


def test_without_a_high_watermark_nothing_is_cleaned(planted: Planted) -> None:
    (planted.data / "replication-offset-checkpoint").unlink()
    before = planted.contents()

    assert run(planted) == 0

    assert planted.contents() == before


def test_how_long_a_broker_keeps_tombstones_is_in_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """log.cleaner.delete.retention.ms: by the default of a day they might go too early."""
    data = fixture_copy("clean", tmp_path / "data")
    arguments = ["compact", str(data), "--dry-run", "--topic", "__consumer_offsets"]

    assert main.run(arguments) == 3
    assert (
        "__consumer_offsets-0: refused, delete.retention.ms comes from its broker" in capsys.readouterr().err
    )

    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    assert main.run([*arguments, "--config", str(properties)]) == 0


def test_an_index_that_becomes_too_small_is_the_matter_of_its_log_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry for each batch from now on, where there was none before: an index has no room for them."""
    with Planted(tmp_path, bad=SETTINGS, good=SETTINGS) as planted:
        planted.fill("bad", 11, keys=11)
        planted.fill("good", 11, keys=1)
    topics = json.loads(planted.settings.read_text())
    topics["bad"] |= {"index.interval.bytes": 0, "segment.index.bytes": 24}
    planted.settings.write_text(json.dumps(topics))

    assert run(planted) == 3

    assert "bad-0: its compaction stopped early" in capsys.readouterr().err
    assert planted.files("bad", ".cleaned") == []
    assert checkpoint(planted.data, "cleaner-offset-checkpoint") == {"good-0": 10}
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH


class Parts:
    """An engine that compacts in parts, as one on a cluster does; tasks for the topic `fails` fail."""

    def __init__(self, fails: str = "", error: StratalogError | None = None) -> None:
        self._fails, self._error = fails, error
        self.compacted: list[str] = []

    def clean_log(
        self, log: DirtyLog, now_ms: int, replace_segments: Replace, *, on_read: CountRead
    ) -> CleanResult:
        self.compacted.append(next(iter(log.segments)).directory)
        return clean_in_parts(log, now_ms, replace_segments, self._runner(), on_read=on_read)

    def _runner(self) -> PartsHere:
        name, error = self.compacted[-1], self._error

        class Failing(PartsHere):
            def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> list[RewrittenGroup]:
                if error is not None:
                    super().rewrite(plan, before)
                    raise error
                return super().rewrite(plan, before)

        return Failing() if self._fails and name.endswith(f"/{self._fails}-0") else PartsHere()

    def run(  # as ThreadEngine.run; the names are those of the protocol
        self,
        function: TaskFunction[Task, Result],
        tasks: Sequence[Task],
        *,
        sizes: Sequence[int] | None = None,
        paths: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
        is_wanted: Callable[[int], bool] | None = None,
    ) -> Generator[TaskOutcome[Task, Result], None, None]:
        return ThreadEngine(1).run(
            function, tasks, sizes=sizes, paths=paths, on_progress=on_progress, is_wanted=is_wanted
        )


def three_topics(root: Path) -> Planted:
    with Planted(root, a=SETTINGS, b=SETTINGS, c=SETTINGS) as planted:
        for topic in "abc":
            planted.fill(topic, 21, keys=3)
    return planted


def compacted(
    planted: Planted, engine: Parts, *, dry_run: bool = False, config: ManagerConfig | None = None
) -> WorkReport:
    sources = TopicSources(topic_settings=planted.settings.read_text())
    maintenance = Maintenance(
        directories=[str(planted.data)], sources=sources, clock=lambda: NOW, dry_run=dry_run
    )
    return maintenance.run(Compaction(config or ManagerConfig(), engine=engine, rehearses=dry_run))


@pytest.mark.parametrize(
    "error",
    [
        DiskError("/data/b-0/x.cleaned", "Input/output error", errno.EIO).on_host("b2"),
        OtherFileError("/data/b-0/x", "on host b2 it is not the file for which the work was planned."),
    ],
    ids=["disk", "other file"],
)
def test_a_worker_s_error_left_the_directory_unclean_and_ended_the_others(
    tmp_path: Path, error: StratalogError
) -> None:
    planted = three_topics(tmp_path)
    before = {name: data for name, data in planted.contents().items() if name.startswith("b-0/")}

    report = compacted(planted, Parts("b", error))

    assert report.status == 3
    assert {each.name: each.error is None for each in report.partitions} == {
        "a-0": True,
        "b-0": False,
        "c-0": True,
    }
    (words,) = [each.error for each in report.partitions if each.error is not None]
    assert "on host b2" in words
    assert [each.error for each in report.directories] == [None]
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH
    after = {name: data for name, data in planted.contents().items() if name.startswith("b-0/")}
    assert {name: data for name, (data, _) in after.items() if name.endswith(".log")} == {
        name: data for name, (data, _) in before.items() if name.endswith(".log")
    }
    assert not [path for path in planted.data.glob("*/*") if path.is_dir()]
    with planted:
        for topic in "ac":
            assert [record.offset for record in read_all(planted.log(topic))] == [17, 18, 19, 20]


def test_a_dry_run_counted_the_passes_of_this_process_although_a_cluster_needs_one(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 10, keys=10)
        planted.fill("t", 11, keys=10)
    config = ManagerConfig(log_cleaner_dedupe_buffer_size=96)  # four slots, three keys

    planned = compacted(planted, Parts(), dry_run=True, config=config)
    done = compacted(planted, Parts(), config=config)

    (cleaned,) = [each.cleaned for each in planned.partitions]
    assert cleaned is not None
    assert cleaned.passes == 1
    assert [each.cleaned for each in done.partitions] == [cleaned]


@pytest.mark.parametrize(("slots", "is_known"), [(12, True), (5, False)])
def test_a_dry_run_for_a_cluster_with_more_offsets_than_a_map_can_hold_reported_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: int, is_known: bool
) -> None:
    monkeypatch.setattr(rehearsing, "LARGEST_MAP_SIZE", 24 * slots)
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 41, keys=7)
    config = ManagerConfig(log_cleaner_dedupe_buffer_size=96)

    (planned,) = compacted(planted, Parts(), dry_run=True, config=config).partitions
    (done,) = compacted(planted, Parts(), config=config).partitions

    assert done.cleaned is not None
    if is_known:
        assert planned.cleaned == done.cleaned
        assert planned.not_known is None
    else:
        assert planned.cleaned is None
        assert "more than 4 keys" in (planned.not_known or "")


def test_a_dry_run_with_an_engine_did_not_foresee_that_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = three_topics(tmp_path)
    monkeypatch.setattr(DiskReader, "free_size", lambda *_: 10)

    planned = compacted(planted, Parts(), dry_run=True)
    done = compacted(planted, Parts())

    for report in (planned, done):
        assert report.status == 3
        assert all("and 10 are free here" in (each.error or "") for each in report.partitions)
        assert all(each.cleaned is None for each in report.partitions)


class Elsewhere(Parts):
    """Its workers see another file under each path."""

    def run(self, function: Any, tasks: Any, **more: Any) -> Any:  # Any: only handed on
        for path in (Path(task.path) for task in tasks):
            os.utime(path, ns=(1, 1))
        return super().run(function, tasks, **more)


def test_a_dry_run_with_an_engine_did_not_ask_the_workers(tmp_path: Path) -> None:
    planted = three_topics(tmp_path)

    report = compacted(planted, Elsewhere(), dry_run=True)

    assert report.status == 3
    assert all(
        "it is not the file for which the work was planned" in (p.error or "") for p in report.partitions
    )
    assert compacted(planted, Parts(), dry_run=True).status == 0
