"""Counts of several tests are added up, from the workers of a parallel run too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import pytest
from tests import counting

counts = counting.counts

@pytest.mark.parametrize("number", range(3))
def test_counting(number, counts):
    counts("images", {"torn": number, "lost": 1})
"""
HOOK = """
from tests import counting

def pytest_terminal_summary(terminalreporter):
    counting.summarise(terminalreporter)
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_counts_of_several_tests_are_added_up(tmp_path: Path, workers: list[str]) -> None:
    tmp_path.joinpath("test_suite.py").write_text(SUITE)
    tmp_path.joinpath("conftest.py").write_text(HOOK)
    root = Path(__file__).parents[1]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", tmp_path, *workers, "."],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{root}:{root / 'src'}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert " images: 6 " in done.stdout
    assert f"{3:12,}  torn" in done.stdout
    assert f"{3:12,}  lost" in done.stdout
