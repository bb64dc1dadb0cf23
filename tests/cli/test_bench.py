"""`stratalog bench startup`: wrong usage is reported first, and a missing broker is told."""

from __future__ import annotations

import json
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
    small = [word for word in SMALL if word != "--no-kafka"]
    arguments = ["bench", "startup", *small, "--strategy", "lazy", "--kafka", str(tmp_path)]

    assert main.run(arguments) == 2
    assert "neither a Kafka" in capsys.readouterr().err


def test_no_reader_at_all_is_wrong_usage(tmp_path: Path) -> None:
    """It would wait forever for the first scan."""
    assert main.run(["bench", "startup", *SMALL, "--readers", "0", "--work-dir", str(tmp_path)]) == 2
    assert not [*tmp_path.iterdir()]


def test_without_a_kafka_the_broker_is_left_out_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KAFKA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    few = ["--readers", "1", "--strategy", "lazy", "--many-segments", "0"]
    small = [word for word in SMALL if word != "--no-kafka"]

    assert main.run(["bench", "startup", *small, *few, "--json", "--work-dir", str(tmp_path)]) == 0

    out, err = capsys.readouterr()
    assert "No real broker is measured: there is no Kafka on the PATH or in the cache of the tests." in err
    assert {row["strategy"] for row in json.loads(out)["measured"]} == {"lazy"}
