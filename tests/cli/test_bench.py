"""`stratalog bench startup`: wrong usage is reported before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli import main
from tests.cli.startup.small import SMALL


def test_an_unknown_strategy_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "startup", *SMALL, "--strategy", "quick", "--work-dir", str(tmp_path)]

    assert main.run(arguments) == 2
    assert "the strategies are kafka-2.1, lazy, dedupe, checked, stratalog" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_without_kafka_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "startup", *SMALL, "--strategy", "lazy", "--kafka", str(tmp_path)]

    assert main.run(arguments) == 2
    assert "neither a Kafka" in capsys.readouterr().err


def test_no_reader_at_all_is_wrong_usage(tmp_path: Path) -> None:
    """It would wait forever for the first scan."""
    assert main.run(["bench", "startup", *SMALL, "--readers", "0", "--work-dir", str(tmp_path)]) == 2
    assert not [*tmp_path.iterdir()]
