"""`stratalog demo` as users run it: in a process of its own, on embedded Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.waiting import PATIENCE_S


def test_spark_finds_exactly_the_planted_damage_and_goes_on(archived: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "stratalog.cli.main", "demo", "--size", "20MB", "--json"]
    done = subprocess.run(
        [*command, "--directory", str(folder)],
        env=archived,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["planted"]) == 5
    assert result["problems"] == []
    # doctor, audit, recover, doctor, two queries, export
    assert [step["status"] for step in result["steps"]] == [0, 1, 1, 0, 0, 0, 0]
    assert "found the planted damage in all 5 files" in done.stderr
    assert pq.read_table(folder / "export").num_rows > 0
