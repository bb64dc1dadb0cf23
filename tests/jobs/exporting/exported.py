"""Logs to export, and what came out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

import stratalog
from stratalog.engine.threads import ThreadEngine
from stratalog.jobs.export import ExportReport, export_logs
from stratalog.jobs.exporting.rows import RowSettings
from stratalog.jobs.reading.options import ReadOptions
from stratalog.log.new_records import NewRecord

T0 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
HOUR_MS = 3_600_000
HIVE = ds.partitioning(pa.schema([("topic", pa.string()), ("date", pa.date32())]), flavor="hive")
ROWS = RowSettings()


def fill(root: Path, topic: str, values: Sequence[bytes], *, start: int = T0, step: int = HOUR_MS) -> None:
    """Append a record for each value, by default an hour apart."""
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
