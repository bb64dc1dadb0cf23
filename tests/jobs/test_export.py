"""Exports to Parquet: every record once, whatever stops them, by topic and day, decoded on request."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import stratalog
from stratalog.engine.progress import Progress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import CorruptRecordError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.jobs.export import export_logs
from stratalog.jobs.exporting.folder import STATE
from stratalog.log.new_records import NewRecord
from tests import profile
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.exporting.exported import HOUR_MS, ROWS, T0, export, exported, fill, offsets, options

CLEAN = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs"


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


def test_damage_stops_it_and_it_goes_on_when_told_to_pass_over(logs: Path, tmp_path: Path) -> None:
    log = next((logs / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF  # in the record of the first batch
    log.write_bytes(data)

    with pytest.raises(CorruptRecordError, match="onCorruption=skip"):
        export(logs, tmp_path / "out")

    report = export(logs, tmp_path / "out", onCorruption="skip")
    assert report.rows == 29
    assert offsets(tmp_path / "out") == list(range(1, 30))
    (omission,) = report.omissions
    assert (omission.first_offset, omission.end_offset, omission.path) == (0, 1, str(log))


def test_the_damaged_end_of_a_closed_log_stops_it_too(logs: Path, tmp_path: Path) -> None:
    log = next((logs / "orders-0").glob("*.log"))
    os.truncate(log, log.stat().st_size - 1)

    with pytest.raises(CorruptRecordError, match="from offset 29 on"):
        export(logs, tmp_path / "out")

    for rows in (29, 0):  # what is missing is missing from every run that asks for it
        report = export(logs, tmp_path / "out", onCorruption="skip")
        assert report.rows == rows
        assert [(each.first_offset, each.end_offset) for each in report.omissions] == [(29, None)]


def test_offsets_that_a_log_does_not_have_are_reported(logs: Path, tmp_path: Path) -> None:
    window = {"endingOffsets": '{"orders": {"0": 40}}', "failOnDataLoss": "false"}

    report = export(logs, tmp_path / "out", **window)

    assert report.rows == 30
    assert [(each.first_offset, each.end_offset) for each in report.omissions] == [(30, 40)]


def test_a_topic_made_anew_is_refused(logs: Path, tmp_path: Path) -> None:
    metadata = logs / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: cl1yXADzSsKkZ634laV8eg\n")
    export(logs, tmp_path / "out")
    metadata.write_text("version: 0\ntopic_id: yZwRuTcZQ_274NNqr9PmNA\n")

    with pytest.raises(UsageError, match="the topic was deleted and created again"):
        export(logs, tmp_path / "out")


@pytest.mark.parametrize("what", ["empty", "folder", "pipe"])
def test_a_damaged_partition_metadata_stopped_an_export(logs: Path, tmp_path: Path, what: str) -> None:
    metadata = logs / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: cl1yXADzSsKkZ634laV8eg\n")
    assert export(logs, tmp_path / "known").rows == 30
    metadata.unlink()
    make: Callable[[Path], object] = {"empty": Path.touch, "folder": Path.mkdir, "pipe": os.mkfifo}[what]
    make(metadata)

    assert export(logs, tmp_path / "new").rows == 30
    assert export(logs, tmp_path / "known").rows == 0


def test_a_log_that_became_shorter_is_refused(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")
    with stratalog.open_log(logs / "orders-0") as log:
        log.truncate_to(10)

    with pytest.raises(UsageError, match=r"ends at offset 10, but .* has its offsets up to 30"):
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


class NoLock(DirectoryLock):
    """The lock of a simulated disk, which nobody else holds."""

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
