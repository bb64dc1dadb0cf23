"""Exports to Parquet: every record once, whatever stops them, by topic and day, decoded where asked."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import stratalog
from stratalog.engine.progress import Progress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import CorruptRecordError, LogDirLockedError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.reading import DiskReader
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.jobs.export import (
    ExportReport,
    ExportTask,
    RunTasks,
    export_logs,
    export_task,
    notes_of,
    run_export,
)
from stratalog.jobs.exporting import parquet
from stratalog.jobs.exporting.decoding import Decoding, Encoding
from stratalog.jobs.exporting.folder import STATE, TaskNote, joined, missing
from stratalog.jobs.exporting.rows import NO_DATE, RowSettings
from stratalog.jobs.reading.options import ReadOptions
from stratalog.log.new_records import NewRecord
from tests import profile
from tests.fixtures.catalog import Partition, partitions

T0 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
HOUR_MS = 3_600_000
CLEAN = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs"
HIVE = ds.partitioning(pa.schema([("topic", pa.string()), ("date", pa.date32())]), flavor="hive")
ROWS = RowSettings()


def fill(root: Path, topic: str, values: Sequence[bytes], *, start: int = T0, step: int = HOUR_MS) -> None:
    """Append a record for each value, an hour apart unless told otherwise."""
    directory = root / f"{topic}-0"
    with stratalog.open_log(directory, create=not directory.exists()) as log:
        first = log.end_offset
        for number, value in enumerate(values, first):
            log.append_many([NewRecord(value, b"key %d" % number, (), start + step * number)])


def options(path: Path | str, **more: str) -> ReadOptions:
    return ReadOptions.parse({"path": str(path), **more})


def export(path: Path, target: Path, rows: RowSettings = ROWS, **more: str) -> ExportReport:
    return export_logs(ThreadEngine(2), options(path, **more), str(target), rows, cores=2)


def exported(target: Path) -> list[dict[str, Any]]:
    table = ds.dataset(target, format="parquet", partitioning=HIVE).to_table()
    return sorted(table.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def offsets(target: Path) -> list[int]:
    return [row["offset"] for row in exported(target)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    fill(root, "orders", [b"value %d" % number for number in range(30)])
    return root


def data_partitions() -> list[Partition]:
    found = partitions("4.3.1", "clean")
    return [each for each in found if not each.name.startswith("__")]


@pytest.mark.parametrize("partition", data_partitions(), ids=str)
def test_every_record_that_kafka_reads_is_exported_once(partition: Partition, tmp_path: Path) -> None:
    topic = partition.name.rpartition("-")[0]

    export(CLEAN, tmp_path / "out", subscribe=topic)

    start = 17 if topic == "trimmed" else 0  # its log start offset, by its checkpoint
    expected = [
        (record["offset"], record["key"], record["value"], record["timestamp"])
        for file in partition.logs
        for batch in partition.batches(file)
        if not batch["isControl"]
        for record in batch["records"]
        if record["offset"] >= start
    ]
    found = [
        (row["offset"], _hex(row["key"]), _hex(row["value"]), round(row["timestamp"].timestamp() * 1000))
        for row in exported(tmp_path / "out")
    ]
    assert found == expected


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def test_files_are_by_topic_and_day(logs: Path, tmp_path: Path) -> None:
    fill(logs, "late", [b"x"], start=T0 + 48 * HOUR_MS)

    report = export(logs, tmp_path / "out")

    found = sorted(
        str(path.parent.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.parquet")
    )
    # 30 hours from 22:13: 2 on the first day, 24 on the second, 4 on the third.
    assert found == [
        "topic=late/date=2023-11-16",
        "topic=orders/date=2023-11-14",
        "topic=orders/date=2023-11-15",
        "topic=orders/date=2023-11-16",
    ]
    days = Counter(str(row["date"]) for row in exported(tmp_path / "out") if row["topic"] == "orders")
    assert days == {"2023-11-14": 2, "2023-11-15": 24, "2023-11-16": 4}
    assert (report.rows, report.files, report.undecoded) == (31, 4, 0)
    assert report.size == sum(path.stat().st_size for path in (tmp_path / "out").rglob("*.parquet"))


def test_a_record_without_a_timestamp_has_no_day(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "logs" / "old-0", create=True) as log:
        log.append_many([NewRecord(b"x", None, (), -1)])

    export(tmp_path / "logs", tmp_path / "out")

    (row,) = exported(tmp_path / "out")
    assert row["date"] is None
    assert [path.name for path in (tmp_path / "out" / "topic=old").iterdir()] == [f"date={NO_DATE}"]


def test_a_second_run_takes_only_what_is_new(logs: Path, tmp_path: Path) -> None:
    assert export(logs, tmp_path / "out").rows == 30
    before = sorted((tmp_path / "out").rglob("*.parquet"))
    assert export(logs, tmp_path / "out").rows == 0
    assert sorted((tmp_path / "out").rglob("*.parquet")) == before

    fill(logs, "orders", [b"new"] * 5)

    assert export(logs, tmp_path / "out").rows == 5
    assert offsets(tmp_path / "out") == list(range(35))


def test_a_window_and_then_the_rest_make_the_whole(logs: Path, tmp_path: Path) -> None:
    window = {"startingOffsets": '{"orders": {"0": 10}}', "endingOffsets": '{"orders": {"0": 20}}'}

    assert export(logs, tmp_path / "out", **window).rows == 10
    assert export(logs, tmp_path / "out").rows == 20

    assert offsets(tmp_path / "out") == list(range(30))


def test_other_topics_can_follow(logs: Path, tmp_path: Path) -> None:
    fill(logs, "other", [b"x"] * 3)

    export(logs, tmp_path / "out", subscribe="orders")
    export(logs, tmp_path / "out", subscribe="other")

    assert Counter(row["topic"] for row in exported(tmp_path / "out")) == {"orders": 30, "other": 3}


class StoppedError(Exception):
    """What stops an export in these tests."""


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


def test_damage_stops_it_and_it_goes_on_when_told_to_pass_over(logs: Path, tmp_path: Path) -> None:
    log = next((logs / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF  # in the record of the first batch
    log.write_bytes(data)

    with pytest.raises(CorruptRecordError, match="onCorruption=skip"):
        export(logs, tmp_path / "out")

    assert export(logs, tmp_path / "out", onCorruption="skip").rows == 29
    assert offsets(tmp_path / "out") == list(range(1, 30))


def test_rows_that_look_different_are_refused(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")

    with pytest.raises(UsageError, match=r"exported with other settings \(columns\)"):
        export(logs, tmp_path / "out", RowSettings(columns=("offset",)))


def test_a_topic_made_anew_is_refused(logs: Path, tmp_path: Path) -> None:
    metadata = logs / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: cl1yXADzSsKkZ634laV8eg\n")
    export(logs, tmp_path / "out")
    metadata.write_text("version: 0\ntopic_id: yZwRuTcZQ_274NNqr9PmNA\n")

    with pytest.raises(UsageError, match="the topic was deleted and created again"):
        export(logs, tmp_path / "out")


def test_a_log_that_became_shorter_is_refused(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")
    with stratalog.open_log(logs / "orders-0") as log:
        log.truncate_to(10)

    with pytest.raises(UsageError, match=r"ends at offset 10, but .* has its offsets up to 30"):
        export(logs, tmp_path / "out")


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
    ledger = tmp_path / "out" / STATE / "ledger.json"
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


def test_the_source_is_not_changed(logs: Path, tmp_path: Path) -> None:
    def everything() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in logs.rglob("*") if path.is_file()}

    before = everything()
    export(logs, tmp_path / "out")

    assert everything() == before


def test_progress_is_told_in_bytes(logs: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []

    export_logs(ThreadEngine(1), options(logs), str(tmp_path / "out"), ROWS, on_progress=seen.append)

    size = sum(path.stat().st_size for path in logs.rglob("*.log"))
    assert (seen[-1].bytes_done, seen[-1].bytes_total) == (size, size)


def test_many_days_out_of_order_do_not_keep_many_files_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "OPEN_FILES", 3)
    monkeypatch.setattr(parquet, "BUFFERED_SIZE", 2000)
    with stratalog.open_log(tmp_path / "logs" / "orders-0", create=True) as log:
        for number in range(200):
            log.append_many([NewRecord(b"x" * 20, None, (), T0 + number * 7 % 20 * 24 * HOUR_MS)])

    export(tmp_path / "logs", tmp_path / "out")

    assert offsets(tmp_path / "out") == list(range(200))
    assert len({row["date"] for row in exported(tmp_path / "out")}) == 20


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "none"])
def test_each_codec_is_read_back(logs: Path, tmp_path: Path, codec: str) -> None:
    export_logs(ThreadEngine(1), options(logs), str(tmp_path / "out"), ROWS, codec=codec)

    file = next((tmp_path / "out").rglob("*.parquet"))
    used = pq.ParquetFile(file).metadata.row_group(0).column(0).compression
    assert used == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert offsets(tmp_path / "out") == list(range(30))


def test_text_and_json_are_decoded_and_what_is_neither_is_kept(tmp_path: Path) -> None:
    fill(tmp_path / "logs", "orders", [b'{"a": 1}', "größer".encode(), b"\xff\xfe", b"[" * 100_000])
    text = RowSettings(value=Decoding(encoding=Encoding.UTF8))
    documents = RowSettings(value=Decoding(encoding=Encoding.JSON))

    assert export(tmp_path / "logs", tmp_path / "text", text).undecoded == 1
    assert export(tmp_path / "logs", tmp_path / "json", documents).undecoded == 3

    texts, jsons = exported(tmp_path / "text"), exported(tmp_path / "json")
    assert [row["value"] for row in texts[:3]] == ['{"a": 1}', "größer", None]
    assert [row["undecodedValue"] for row in texts] == [None, None, b"\xff\xfe", None]
    assert [row["value"] for row in jsons] == ['{"a": 1}', None, None, None]
    assert [row["undecodedValue"] for row in jsons[:3]] == [None, "größer".encode(), b"\xff\xfe"]


def test_keys_can_be_decoded_too(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out", RowSettings(key=Decoding(encoding=Encoding.UTF8)))

    assert [row["key"] for row in exported(tmp_path / "out")] == [f"key {number}" for number in range(30)]


def test_columns_are_those_that_are_asked_for(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out", RowSettings(columns=("offset", "partition", "codec")))

    file = next((tmp_path / "out").rglob("*.parquet"))
    assert pq.read_schema(file).names == ["offset", "partition", "codec"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": ("offset", "topic")},
        {"columns": ("offse",)},
        {"columns": ()},
        {"columns": ("offset",), "value": Decoding(encoding=Encoding.UTF8)},
    ],
)
def test_wrong_columns_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RowSettings(**wrong)


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


class NoLock(DirectoryLock):
    """The lock of a simulated disk, which nobody else has."""

    def acquire(self) -> None:
        pass

    def release(self) -> None:
        pass


def export_on(disk: Disk) -> None:
    """One task after the other, so that a step is always the same."""
    asked = options("/logs", maxRecordsPerPartition="2", failOnDataLoss="true")
    export_logs(ThreadEngine(1), asked, "/out", ROWS, disk=disk, make_lock=NoLock, cores=1)


def found_on(disk: SimulatedDisk) -> list[int]:
    files = {name: data for name, data in disk.contents().items() if name.endswith(".parquet")}
    assert not [name for name in files if f"{os.sep}{STATE}{os.sep}" in name]
    return sorted(
        offset
        for data in files.values()
        for offset in pq.read_table(io.BytesIO(data)).column("offset").to_pylist()
    )


def logs_in_memory(tmp_path: Path) -> dict[str, bytes]:
    fill(tmp_path / "logs", "orders", [b"x"] * 5, step=12 * HOUR_MS)
    return {
        f"/logs/{path.relative_to(tmp_path / 'logs')}": path.read_bytes()
        for path in (tmp_path / "logs").rglob("*")
        if path.is_file()
    }


def test_a_power_cut_at_any_step_loses_and_repeats_nothing(tmp_path: Path) -> None:
    contents = logs_in_memory(tmp_path)
    whole = SimulatedDisk.of(contents)
    export_on(whole)
    assert found_on(whole) == list(range(5))

    every = 1 if profile.current() == profile.DEEP else 7
    for step in range(1, whole.steps + 1, every):
        disk = SimulatedDisk.of(contents)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            export_on(disk)
        for restarted in disk.crash():
            export_on(restarted)
            assert found_on(restarted) == list(range(5)), step


def test_a_refusal_at_any_step_is_told_and_the_next_run_finishes(tmp_path: Path) -> None:
    contents = logs_in_memory(tmp_path)
    whole = SimulatedDisk.of(contents)
    export_on(whole)

    for step in range(1, whole.steps + 1, 1 if profile.current() == profile.DEEP else 5):
        disk = SimulatedDisk.of(contents)
        disk.fail_at(step)
        with pytest.raises(stratalog.StratalogError):
            export_on(disk)
        export_on(disk)
        assert found_on(disk) == list(range(5)), step


def test_a_process_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "logs" / "orders-0", create=True) as log:
        for number in range(300):
            log.append_many([NewRecord(b"%d" % number, None, (), T0 + number * HOUR_MS)])
    script = f"""
from stratalog.engine.threads import ThreadEngine
from stratalog.jobs.export import export_logs
from stratalog.jobs.exporting.rows import RowSettings
from stratalog.jobs.reading.options import ReadOptions
asked = ReadOptions.parse({{"path": {str(tmp_path / "logs")!r}, "maxRecordsPerPartition": "3"}})
export_logs(ThreadEngine(2), asked, {str(tmp_path / "out")!r}, RowSettings())
"""
    run = tmp_path / "out" / STATE / "run-000001"
    for notes_count in (1, 30, 60):
        process = subprocess.Popen([sys.executable, "-c", script])
        while process.poll() is None and len(list(run.glob("task-*.json"))) < notes_count:
            time.sleep(0.005)
        process.kill()
        process.wait()

    export(tmp_path / "logs", tmp_path / "out", maxRecordsPerPartition="3")

    assert offsets(tmp_path / "out") == list(range(300))


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
