"""Which files a dump knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli import main
from tests.cli.dumps import dump
from tests.fixtures.catalog import log_dirs

CLEAN = log_dirs("4.3.1", "clean")[0]
Capture = pytest.CaptureFixture[bytes]


def test_unknown_files_are_ignored_as_by_kafka(
    capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CLEAN)

    dumped = dump(capsysbinary, "--files", "meta.properties,replication-offset-checkpoint")

    assert dumped.out == "Dumping meta.properties\nDumping replication-offset-checkpoint\n"
    assert dumped.err == (
        "Ignoring unknown file meta.properties\nIgnoring unknown file replication-offset-checkpoint\n"
    )
    assert dumped.status == 0


def test_a_directory_stands_for_all_its_files(capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, CLEAN)

    headlines = [line.removeprefix("Dumping ") for line in dumped.lines if line.startswith("Dumping ")]
    unknown = {"quorum-state"}
    assert sorted(headlines) == sorted(
        str(file) for file in CLEAN.rglob("*") if file.is_file() and file.name not in unknown
    )
    assert dumped.status == 0


def test_among_files_a_name_that_is_unknown_is_passed_over_as_by_kafka(capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, "--files", "nowhere")

    assert (dumped.status, dumped.err) == (0, "Ignoring unknown file nowhere\n")


def test_a_directory_without_files_to_dump_was_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "notes.txt").write_text("x")

    assert main.run(["dump", str(tmp_path)]) == 1

    assert f"{tmp_path}: no file in this directory or below it can be dumped." in capsys.readouterr().err
