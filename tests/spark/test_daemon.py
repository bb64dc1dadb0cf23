"""The daemon of Spark's Python workers says nothing of those that Spark stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stratalog
from tests.waiting import PATIENCE_S


def test_a_query_that_has_enough_before_its_tasks_do_stops_them_quietly(
    tmp_path: Path, archived: dict[str, str]
) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for _ in range(100):
            log.append(bytes(900_000))
    query = "SELECT length(value) AS n FROM orders LIMIT 1"
    command = [sys.executable, "-m", "stratalog.cli.main", "sql", str(tmp_path), query]

    # The process that plans the read belongs to a daemon of Spark's own, which on a busy machine prints a
    # traceback too, now and then. One of ours would be there each time.
    for _ in range(3):
        done = subprocess.run(
            [*command, "--format", "csv", "--master", "local[1]"],
            env=archived,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "n\n900000\n")
        if "Traceback" not in done.stderr:
            break
    else:
        pytest.fail(done.stderr)
