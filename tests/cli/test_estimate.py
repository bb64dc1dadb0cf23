"""`stratalog estimate`: what compaction would free, in a table and as JSON, and nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from tests.cli.estimating import SETTINGS, run
from tests.cli.planting import Planted
from tests.log.model import NOW


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=3)
    return planted


def logs_size(planted: Planted) -> int:
    return sum(path.stat().st_size for path in planted.data.glob("*/*.log"))


def test_the_estimate_is_what_compact_frees(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    before, contents = logs_size(planted), planted.contents()

    assert run(planted, "--json") == 0

    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    assert planted.contents() == contents
    run(planted, command="compact")
    assert topic["freed_bytes"] == before - logs_size(planted) > 0
    assert topic["bytes"] == before
    assert topic["bound_bytes"] == 0


def test_a_dry_run_of_compact_says_the_same(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    run(planted, "--json")
    (topic,) = json.loads(capsys.readouterr().out)["topics"]

    assert run(planted, "--dry-run", "--json", command="compact") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    cleaned = partition["cleaned"]
    assert cleaned["bytes_before"] - cleaned["bytes_after"] == topic["freed_bytes"]


def test_there_is_a_bar_where_somebody_watches(
    planted: Planted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # treats a pipe like a terminal

    assert run(planted, "--json") == 0

    printed = capsys.readouterr()
    assert "100%" in printed.err
    assert json.loads(printed.out)["now"] == NOW


def test_a_topic_whose_settings_are_not_known_is_estimated_and_that_is_said(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(planted, settings=False) == 0

    words = capsys.readouterr().err
    assert "t: estimated with the known settings and Kafka's defaults" in words
    assert "t: cleanup.policy is delete: estimated as if it were compact" in words


def test_a_directory_in_use_is_estimated(planted: Planted) -> None:
    with DirectoryLock(planted.data):
        assert run(planted) == 0


def test_a_partition_that_cannot_be_read_is_status_3(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "t-0" / f"{5:020d}.log"
    data = bytearray(path.read_bytes())
    data[16] = 9
    path.write_bytes(data)

    assert run(planted) == 3

    assert "t-0: failed." in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("--sample", "1"), ("--prefix-delimiter", "ab"), ("--topic", "none"), ("--top", "-1")]
)
def test_wrong_usage_is_status_2(planted: Planted, arguments: tuple[str, str]) -> None:
    assert run(planted, *arguments) == 2


@pytest.mark.parametrize("command", ["estimate", "explain"])
def test_what_is_not_a_log_directory_is_not_one_without_logs(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unmounted disk must not look like a disk on which nothing can be freed."""
    (tmp_path / "data" / "lost+found").mkdir(parents=True)

    assert main.run([command, str(tmp_path / "data")]) == 3

    assert "mount" in capsys.readouterr().err
