"""`stratalog demo` without Spark; tests/spark/test_demo.py runs it as users do."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.demo_damage import log_damages
from stratalog.operations.audit.audit import audit

SMALL = ["demo", "--engine", "threads", "--size", "4MB"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a demo with --directory."""
    directory = tmp_path_factory.mktemp("demo") / "logs"
    assert main.run([*SMALL, "--directory", str(directory)]) == 0
    return directory


def test_the_tables_name_topics_and_damaged_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(SMALL) == 0

    printed = capsys.readouterr()
    for word in ("orders", "payments", "zstd", "one bit flipped", "last batch torn", "2026-01-01"):
        assert word in printed.out
    assert "All 5 planted damages were found, each at its byte, and no other in a log." in printed.err


def test_what_was_kept_is_still_damaged(kept: Path) -> None:
    assert len(log_damages(audit([kept]))) == 5


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("data")

    assert main.run([*SMALL, "--directory", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_size_that_five_topics_do_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["demo", "--engine", "threads", "--size", "1MB"]) == 2
    assert "at least 4.0 MB" in capsys.readouterr().err
