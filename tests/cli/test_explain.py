"""`stratalog explain`: the right rule for each of many planted cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.cli.explaining import DAY, ages, explain
from tests.cli.planting import Planted
from tests.log.model import NOW
from tests.manager.running import fixture_copy

WEEK = {"retention.ms": 7 * DAY}


def test_what_is_said_is_what_retain_then_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Planted(tmp_path, t=WEEK) as planted:
        ages(9, 8, 1)(planted)
    explain(planted, "--json")
    (said,) = json.loads(capsys.readouterr().out)["partitions"]

    main.run(
        ["retain", str(planted.data), "--topic-settings", str(planted.settings), "--now", str(NOW), "--json"]
    )

    ((done,),) = [d["partitions"] for d in json.loads(capsys.readouterr().out)["directories"]]
    going = [(found["base_offset"], found["rule"]) for found in said["segments"] if found["goes"]]
    assert going == [(found["base_offset"], found["rule"]) for found in done["deleted"]] != []


def test_a_week_was_printed_as_a_time_of_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Planted(tmp_path, t=WEEK) as planted:
        ages(9, 1)(planted)

    explain(planted, "--json")

    (said,) = json.loads(capsys.readouterr().out)["partitions"]
    words = " ".join(str(segment) for segment in said["segments"])
    assert "retention.ms is 7 days" in words
    assert "0:00:00" not in words


def test_settings_that_are_not_known_are_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t=WEEK) as planted:
        ages(1)(planted)

    assert main.run(["explain", str(planted.data), "--now", str(NOW)]) == 0

    assert "its settings are not known" in capsys.readouterr().err


def test_a_broker_s_whole_directory_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")

    assert main.run(["explain", str(data), "--config", str(properties), "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert len(document["partitions"]) == 12
    assert all(partition["refused"] is None for partition in document["partitions"])
