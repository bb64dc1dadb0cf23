"""`--to FILE`: what is refused before hours of reading."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from stratalog.cli.parquet import check_targets, write_parquet
from stratalog.errors import DiskError, UsageError
from tests.operations.test_recover_owners import as_nobody, reachable

__all__ = ["reachable"]


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_may_not_be_searched_ended_in_a_traceback(reachable: Path) -> None:
    (reachable / "closed" / "folder").mkdir(parents=True)
    (reachable / "closed").chmod(0o700)
    file = reachable / "closed" / "folder" / "a.parquet"

    with as_nobody(), pytest.raises(DiskError, match="this user may not look into its folder") as caught:
        check_targets([file], [])

    assert (caught.value.errno, caught.value.path) == (errno.EACCES, str(file))
