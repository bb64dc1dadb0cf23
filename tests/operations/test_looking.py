"""Partitions that are only looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT
from tests.cli.explaining import DAY, ages, explain
from tests.cli.planting import Planted
from tests.cli.retaining import run
from tests.log.model import NOW
from tests.manager.running import fixture_copy


def test_others_are_done_when_one_topic_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(
        tmp_path, orders={"retention.ms": 0}, tiered={"retention.ms": 0, "remote.storage.enable": True}
    ) as planted:
        planted.fill("orders", 6, timestamp=NOW - 10)
        planted.fill("tiered", 6, timestamp=NOW - 10)

    assert run(planted) == 3

    assert "tiered-0: refused, the topic is tiered" in capsys.readouterr().err
    assert planted.files("tiered", ".deleted") == []
    assert len(planted.files("orders", ".log.deleted")) == 2


WEEK = {"retention.ms": 7 * DAY}


def test_a_directory_in_use_can_be_explained(tmp_path: Path) -> None:
    with Planted(tmp_path, t=WEEK) as planted:
        ages(1)(planted)

    with DirectoryLock(planted.data):
        assert explain(planted) == 0


def test_one_garbled_epoch_file_does_not_stop_explaining_the_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "rolled-0" / LEADER_EPOCH_CHECKPOINT).write_bytes(bytes(8))
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")

    assert main.run(["explain", str(data), "--config", str(properties), "--json"]) == 0

    shown = capsys.readouterr()
    notes = {found["partition"]: found["notes"] for found in json.loads(shown.out)["partitions"]}
    (note,) = notes.pop("rolled-0")
    assert LEADER_EPOCH_CHECKPOINT in note
    assert note in shown.err
    assert not any(notes.values())
