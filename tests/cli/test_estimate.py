"""`stratalog estimate`: what compaction would free, in a table and as JSON, and nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from tests.cli.planting import Planted
from tests.log.model import NOW, batch

SETTINGS: dict[str, Any] = {"cleanup.policy": "compact"}


def run(planted: Planted, *arguments: object, command: str = "estimate", settings: bool = True) -> int:
    given = ["--topic-settings", planted.settings] if settings else []
    return main.run([command, *map(str, (planted.data, *given, "--now", NOW, *arguments))])


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


def test_people_read_a_table(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(planted, "--prefix-size", 1) == 0

    printed = capsys.readouterr().out
    assert "What compaction would free" in printed
    assert "t: keys with the most bytes" in printed
    assert "t: keys with the most versions" in printed
    assert "t: by key prefix" in printed


def test_there_is_a_bar_where_somebody_watches(
    planted: Planted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes a terminal of a pipe

    assert run(planted, "--json") == 0

    printed = capsys.readouterr()
    assert "100%" in printed.err
    assert json.loads(printed.out)["now"] == NOW


def test_keys_are_named_with_their_versions(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    run(planted, "--json", "--top", 2)

    (topic,) = json.loads(capsys.readouterr().out)["topics"]
    # Of the first twenty records, which are not in the active segment.
    assert [(key["key"], key["versions"]) for key in topic["keys_by_versions"]] in (
        [("0", 7), ("1", 7)],
        [("1", 7), ("0", 7)],
    )


def test_a_topic_without_keys_is_said_to_lose_its_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "delete"}) as planted:
        log = planted.log("t")
        for _ in range(30):
            log.append_as_leader(batch(b"value"), leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)

    assert run(planted) == 0

    said = capsys.readouterr()
    assert "0.0 %" in said.out
    assert "t: 25 of the 25 records read have no key. Compaction deletes them" in said.err


def test_a_sample_says_its_bound(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(planted, "--sample", 100) == 0

    assert "±" in capsys.readouterr().out
    run(planted, "--sample", 100, "--json")
    (partition,) = json.loads(capsys.readouterr().out)["topics"][0]["partitions"]
    assert partition["is_sampled"]
    assert partition["bound_bytes"] > 0


def test_a_topic_whose_settings_are_not_known_is_estimated_and_that_is_said(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(planted, settings=False) == 0

    words = capsys.readouterr().err
    assert "t: estimated by the settings that are known and Kafka's defaults" in words
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


def test_a_key_that_is_no_text_is_printed_as_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        log = planted.log("t")
        for _ in range(11):
            log.append_as_leader(batch(b"v", key=b"\xff\x1b[1m\n"), leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)

    run(planted, "--json")

    (key,) = json.loads(capsys.readouterr().out)["topics"][0]["keys_by_bytes"]
    assert (key["key"], key["key_hex"]) == (r"\xff\x1b[1m\x0a", "ff1b5b316d0a")


@pytest.mark.parametrize("command", ["estimate", "explain"])
def test_what_is_not_a_log_directory_is_not_one_without_logs(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unmounted disk must not look like one on which nothing can be freed."""
    (tmp_path / "data" / "lost+found").mkdir(parents=True)

    assert main.run([command, str(tmp_path / "data")]) == 3

    assert "mount" in capsys.readouterr().err
