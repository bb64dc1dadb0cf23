"""`stratalog demo` without Spark; tests/spark/test_demo.py runs it as users do."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli import main
from tests.cli.demos import SMALL, report_of, told


def test_each_command_is_printed_before_what_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    assert main.run([*SMALL, "--directory", str(folder)]) == 0

    printed = capsys.readouterr()
    for word in ("orders", "payments", "zstd", "wrong-crc", "torn-tail", "2026-01-01"):
        assert word in printed.out
    commands = [line.split() for line in printed.err.splitlines() if line.startswith("    $ stratalog")]
    assert [command[2] for command in commands] == ["doctor", "audit", "recover", "doctor"]
    found = "found the planted damage in all 5 files, at the right bytes, and no other damage in a log."
    assert found in printed.err


def test_a_relative_folder_is_taken_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main.run([*SMALL, "--directory", "demo"]) == 0
    assert "found the planted damage in all 5 files" in capsys.readouterr().err


def test_what_it_leaves_is_a_directory_that_a_broker_can_start_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = told(capsys, tmp_path / "demo")

    assert [step["status"] for step in result["steps"]] == [0, 1, 1, 0]
    before, after = (step["report"] for step in result["steps"] if " doctor " in step["command"])
    assert [state["is_clean"] for state in before["directories"]] == [False]
    assert [state["is_clean"] for state in after["directories"]] == [True]
    assert after["may_start"]
    assert main.run(["doctor", result["directory"]]) == 0
    assert "wrong-crc" in Path(result["page"]).read_text("utf-8")


def test_quarantine_keeps_what_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = told(capsys, tmp_path / "demo")

    kept = list(Path(result["directory"]).glob("stratalog-quarantine-*"))
    assert kept
    assert report_of(result, "recover")["directories"][0]["outcome"] == "recovered"


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("data")

    assert main.run([*SMALL, "--directory", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_size_that_five_topics_do_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["demo", "--engine", "threads", "--size", "1MB"]) == 2
    assert "at least 4.0 MB" in capsys.readouterr().err
