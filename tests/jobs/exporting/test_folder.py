"""The folder of an export: who may use it, and how each record comes once."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest

import stratalog
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import DiskError, LogDirLockedError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path as FilePath
from stratalog.files.lock import DirectoryLock
from stratalog.files.reading import DiskReader
from stratalog.jobs.export import ExportTask, RunTasks, export_logs, export_task, notes_of, run_export
from stratalog.jobs.exporting.folder import STATE, ExportFolder, TaskNote, joined, missing
from stratalog.jobs.exporting.rows import RowSettings, row_settings
from stratalog.jobs.reading.omissions import Omission, OmissionKind
from tests.jobs.exporting.exported import ROWS, export, exported, fill, offsets, options

CLEAN = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "clean" / "logs"

OMISSION = Omission(
    topic="orders", partition=3, kind=OmissionKind.LOSS, first_offset=0, end_offset=9, why="gone."
)


class StoppedError(Exception):
    """What stops an export in these tests."""


class StoppingDisk(Disk):
    """Stops an export when it renames its first finished file to its place, so in the middle of a commit."""

    def rename(self, source: FilePath, target: FilePath) -> None:
        if "topic=" in str(target):
            raise StoppedError
        super().rename(source, target)


def stopping_after(tasks_done: int) -> RunTasks:
    def run(tasks: Sequence[ExportTask]) -> Sequence[TaskNote]:
        for task in tasks[:tasks_done]:
            export_task(DiskReader(), task)
        raise StoppedError

    return run


def begin_and_stop(logs: Path, target: Path, tasks_done: int) -> None:
    settings = {**ROWS.to_json(), "format": "parquet"}
    asked = options(logs, maxRecordsPerPartition="5")
    with pytest.raises(StoppedError):
        run_export(stopping_after(tasks_done), asked, str(target), ROWS, settings=settings)


def test_an_export_that_was_stopped_is_finished_by_the_next(logs: Path, tmp_path: Path) -> None:
    begin_and_stop(logs, tmp_path / "out", tasks_done=2)
    assert list((tmp_path / "out").glob("topic=*")) == []
    staged = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("task-*.json")}
    assert len(staged) == 2
    fill(logs, "orders", [b"new"] * 5)

    report = export(logs, tmp_path / "out")

    assert report.taken_up
    assert report.rows == 35
    assert offsets(tmp_path / "out") == list(range(35))
    assert [path.name for path in (tmp_path / "out" / STATE).iterdir() if path.is_dir()] == []


def test_what_a_run_left_out_is_told_by_the_run_that_finishes_its_commit(logs: Path, tmp_path: Path) -> None:
    log = next((logs / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF  # in the record of the first batch
    log.write_bytes(data)

    asked = options(logs, onCorruption="skip")
    with pytest.raises(StoppedError):
        export_logs(ThreadEngine(2), asked, str(tmp_path / "out"), ROWS, disk=StoppingDisk())
    report = export(logs, tmp_path / "out", onCorruption="skip")

    assert report.taken_up
    assert offsets(tmp_path / "out") == list(range(1, 30))
    assert [(each.first_offset, each.end_offset) for each in report.omissions] == [(0, 1)]


def test_what_a_run_could_not_decode_is_told_by_the_run_that_finishes_its_commit(
    logs: Path, tmp_path: Path
) -> None:
    fill(logs, "orders", [b"\xff", b"text", b"\xfe"])
    asked = options(logs, valueEncoding="utf8")
    with pytest.raises(StoppedError):
        export_logs(ThreadEngine(2), asked, str(tmp_path / "out"), row_settings(asked), disk=StoppingDisk())

    report = export_logs(ThreadEngine(2), asked, str(tmp_path / "out"), row_settings(asked))

    assert (report.taken_up, report.undecoded) == (True, 2)


def test_what_tasks_of_an_attempt_left_out_is_found_by_the_attempt(tmp_path: Path) -> None:
    folder = ExportFolder(Disk(), str(tmp_path))
    folder.begin(1, {})

    folder.write_omissions(1, "first", 0, [OMISSION])
    folder.write_omissions(1, "second", 0, [OMISSION])
    folder.write_omissions(1, "second", 3, [OMISSION, replace(OMISSION, partition=4)])

    assert folder.omissions(1, "first") == (OMISSION,)
    assert folder.omissions(1, "second") == (OMISSION, replace(OMISSION, partition=4))
    assert folder.omissions(1, "third") == ()


def test_a_run_that_was_stopped_can_be_wanted_otherwise(logs: Path, tmp_path: Path) -> None:
    begin_and_stop(logs, tmp_path / "out", tasks_done=2)

    export(logs, tmp_path / "out", RowSettings(columns=("offset", "partition")))

    assert [sorted(row) for row in exported(tmp_path / "out")] == [
        ["date", "offset", "partition", "topic"]
    ] * 30
    assert offsets(tmp_path / "out") == list(range(30))


def test_a_run_that_was_stopped_goes_on_from_where_the_logs_were_moved_to(logs: Path, tmp_path: Path) -> None:
    begin_and_stop(logs, tmp_path / "out", tasks_done=2)
    moved = logs.rename(tmp_path / "moved")

    export(moved, tmp_path / "out")

    assert offsets(tmp_path / "out") == list(range(30))


def test_a_task_that_ran_twice_counts_once(logs: Path, tmp_path: Path) -> None:
    def twice(tasks: Sequence[ExportTask]) -> Sequence[TaskNote]:
        for task in tasks:
            export_task(DiskReader(), task)
            note = tmp_path / "out" / STATE / f"run-{task.run:06d}" / f"task-{task.number:05d}.json"
            note.unlink()  # as one that is believed dead, and ends after the other
            export_task(DiskReader(), task)
        return [note for note in notes_of(tasks) if note is not None]

    run_export(
        twice, options(logs), str(tmp_path / "out"), ROWS, settings={**ROWS.to_json(), "format": "parquet"}
    )

    assert offsets(tmp_path / "out") == list(range(30))


def test_a_folder_with_something_else_is_refused(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").touch()

    with pytest.raises(UsageError, match="contains precious"):
        export(logs, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]


@pytest.mark.parametrize("below", ["out", "topic-0/out", "."])
def test_a_folder_in_a_log_directory_is_refused(tmp_path: Path, below: str) -> None:
    shutil.copytree(CLEAN, tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(UsageError, match=r"is in the log directory .*data, and a broker refuses to start"):
        export(tmp_path / "data", tmp_path / "data" / below, subscribe="codecs")

    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_in_another_store_is_refused_and_not_made_here(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match="s3a://bucket/out: only directories"):
        export_logs(ThreadEngine(1), options(logs), "s3a://bucket/out", ROWS)

    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert export_logs(ThreadEngine(1), options(logs), f"file:{tmp_path}/out", ROWS).rows == 30


def test_a_folder_of_another_version_is_refused(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")
    ledger = beside(tmp_path / "out")
    ledger.write_text(ledger.read_text().replace('"version": 1', '"version": 2'))

    with pytest.raises(UsageError, match="has the version 2"):
        export(logs, tmp_path / "out")


def test_a_wrong_path_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        export(tmp_path / "nowhere", tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_two_exports_into_one_folder_exclude_each_other(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")

    with DirectoryLock(tmp_path / "out" / STATE), pytest.raises(LogDirLockedError):
        export(logs, tmp_path / "out")


@pytest.mark.parametrize(
    ("asked", "done", "gaps"),
    [
        ((0, 10), [], [(0, 10)]),
        ((0, 10), [(0, 10)], []),
        ((0, 10), [(2, 4), (6, 8)], [(0, 2), (4, 6), (8, 10)]),
        ((3, 7), [(0, 5), (6, 20)], [(5, 6)]),
        ((5, 5), [(0, 3)], []),
        ((0, 3), [(5, 9)], [(0, 3)]),
        ((4, 3), [], []),
    ],
)
def test_what_is_missing_is_what_no_range_has(
    asked: tuple[int, int], done: list[tuple[int, int]], gaps: list[tuple[int, int]]
) -> None:
    assert missing(asked, done) == gaps
    assert {n for low, high in gaps for n in range(low, high)} == set(range(*asked)) - {
        n for low, high in done for n in range(low, high)
    }


def test_ranges_are_joined_where_they_touch() -> None:
    assert joined([(5, 7), (0, 3), (3, 4), (6, 9)]) == [(0, 4), (5, 9)]


def test_a_plan_is_readable_json(logs: Path, tmp_path: Path) -> None:
    begin_and_stop(logs, tmp_path / "out", tasks_done=0)

    plan = json.loads((tmp_path / "out" / STATE / "run-000001" / "plan.json").read_text())
    spans = [
        (split["start_offset"], split["end_offset"]) for task in plan["tasks"] for split in task["splits"]
    ]
    assert joined(spans) == [(0, 30)]


def test_an_empty_log_leaves_an_empty_folder(tmp_path: Path) -> None:
    stratalog.open_log(tmp_path / "logs" / "empty-0", create=True).close()

    assert export(tmp_path / "logs", tmp_path / "out").rows == 0
    assert list((tmp_path / "out").rglob("*.parquet")) == []


def test_polars_duckdb_and_arrow_read_the_folder_as_it_is(logs: Path, tmp_path: Path) -> None:
    """A ledger inside was a file of another kind for Polars, which refused the folder."""
    export(logs, tmp_path / "out")

    assert pl.scan_parquet(tmp_path / "out").collect().height == 30
    assert pl.read_parquet(tmp_path / "out")["topic"].unique().to_list() == ["orders"]
    assert ds.dataset(tmp_path / "out", partitioning="hive").count_rows() == 30
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/out/**/*.parquet'").fetchall() == [(30,)]


def inside(target: Path) -> Path:
    return target / STATE / "ledger.json"


def beside(target: Path) -> Path:
    return target.parent / f".{target.name}.stratalog.json"


def test_a_folder_of_an_older_version_is_understood_and_its_ledger_moves_out(
    logs: Path, tmp_path: Path
) -> None:
    export(logs, tmp_path / "out")
    beside(tmp_path / "out").rename(inside(tmp_path / "out"))
    assert export(logs, tmp_path / "out").rows == 0
    fill(logs, "orders", [b"new"] * 5)

    assert export(logs, tmp_path / "out").rows == 5

    assert beside(tmp_path / "out").exists()
    assert not inside(tmp_path / "out").exists()
    assert offsets(tmp_path / "out") == list(range(35))


def test_where_nothing_can_be_written_beside_the_folder_the_ledger_is_inside(
    logs: Path, tmp_path: Path
) -> None:
    disk = ReadOnlyBeside(beside(tmp_path / "out"))

    export_logs(ThreadEngine(1), options(logs), str(tmp_path / "out"), ROWS, disk=disk)

    assert inside(tmp_path / "out").exists()
    assert export(logs, tmp_path / "out").rows == 0


class ReadOnlyBeside(Disk):
    """A disk that refuses to write one file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._refused = str(path)

    def replace(self, path: FilePath, data: bytes | memoryview, *arguments: Any, **more: Any) -> None:
        if str(path) == self._refused:
            raise DiskError(path, "it cannot be written.", errno.EACCES)
        super().replace(path, data, *arguments, **more)


def test_a_folder_that_is_gone_or_not_mounted_is_not_exported_to_again(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")
    shutil.rmtree(tmp_path / "out")

    with pytest.raises(UsageError, match=r"\.out\.stratalog\.json says what was exported to .*out, but"):
        export(logs, tmp_path / "out")
    beside(tmp_path / "out").unlink()
    assert export(logs, tmp_path / "out").rows == 30


def test_a_folder_that_was_moved_without_its_ledger_is_refused(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "moved")

    with pytest.raises(
        UsageError, match=r"\.moved\.stratalog\.json, which says what is in .*moved, is missing"
    ):
        export(logs, tmp_path / "moved")
    beside(tmp_path / "out").rename(beside(tmp_path / "moved"))
    assert export(logs, tmp_path / "moved").rows == 0
