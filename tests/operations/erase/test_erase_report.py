"""What an erasure says was done, or would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.erasing import COUNT, SETTINGS, left, run, without
from tests.cli.planting import Planted


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record. Values are offsets."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    return planted


def test_a_dry_run_tells_what_would_go_and_changes_nothing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, "--key", "2", "--dry-run", "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert partition["records"] == 7
    assert [file["records"] for file in partition["files"]] == [1, 2, 2, 1, 1]
    assert planted.contents() == before


def test_a_topic_of_unknown_settings_is_done_and_that_is_said(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(planted, "--key", "0", settings=False) == 0

    assert "settings of the topic are not known" in capsys.readouterr().err
    assert left(planted) == without(0)


def test_directories_of_the_broker_that_were_not_named_are_told(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, properties = tmp_path / "other", tmp_path / "server.properties"
    other.mkdir()
    properties.write_text(f"log.dirs={planted.data},{other}\n")

    assert run(planted, "--key", "0", "--config", properties) == 0

    assert (
        f"These directories of the broker's log.dirs were not named and not searched: {other}."
        in capsys.readouterr().err
    )
