"""`--to FILE`: what is refused before hours of reading."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from stratalog.cli.parquet import check_targets, write_parquet
from stratalog.errors import DiskError, UsageError


def test_the_rows_are_read_back(tmp_path: Path) -> None:
    table = pa.table({"topic": ["orders"], "bytes": [7]})

    write_parquet(table, tmp_path / "rows.parquet")

    assert parquet.read_table(tmp_path / "rows.parquet") == table


def test_a_file_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=r"rows\.parquet"):
        write_parquet(pa.table({"a": [1]}), tmp_path / "nowhere" / "rows.parquet")


def test_a_file_inside_a_log_directory_or_in_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs" / "t-0").mkdir(parents=True)

    with pytest.raises(UsageError, match="inside a log directory"):
        check_targets([tmp_path / "logs" / "t-0" / "a.parquet"], [str(tmp_path / "logs")])
    with pytest.raises(DiskError, match="its folder does not exist"):
        check_targets([tmp_path / "nowhere" / "a.parquet"], [str(tmp_path / "logs")])
    check_targets([tmp_path / "a.parquet"], [str(tmp_path / "logs")])
