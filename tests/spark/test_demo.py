"""`stratalog demo` as users run it: in a process of its own, on embedded Spark."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.waiting import PATIENCE_S


def test_spark_finds_exactly_the_planted_damage(archived: dict[str, str]) -> None:
    command = [sys.executable, "-m", "stratalog.cli.main", "demo", "--size", "20MB", "--json"]
    done = subprocess.run(
        command,
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
    assert sum(topic["size"] for topic in result["topics"]) >= 20_000_000
    assert "All 5 planted damages were found" in done.stderr
