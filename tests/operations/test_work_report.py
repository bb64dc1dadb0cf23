"""What a report of `retain` says was done, or would be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.planting import EPOCH, MARKER, Planted
from tests.cli.retaining import DELAY, run
from tests.log.model import NOW


def test_files_are_removed_by_a_run_after_their_delay_and_the_report_says_when(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    run(planted)
    assert "or the broker's next start, removes them" in capsys.readouterr().out
    run(planted, now=NOW + DELAY - 1)
    assert planted.files("orders", ".deleted")

    assert run(planted, "--json", now=NOW + DELAY) == 0

    document = capsys.readouterr().out
    (partition,) = json.loads(document[document.index("{") :])["directories"][0]["partitions"]
    assert len(partition["removed_files"]) == len(
        [name for name in partition["removed_files"] if ".deleted" in name]
    )
    assert partition["removed_files"]
    assert partition["waiting_files"] == []
    assert planted.files("orders", ".deleted") == []
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH


@pytest.mark.parametrize("command", ["retain", "compact"])
def test_each_log_of_a_broker_had_the_same_line_about_its_refusal(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics: dict[str, Any] = {f"topic-{number}": {} for number in range(5)}
    with Planted(tmp_path, **topics) as planted:
        for topic in topics:
            planted.fill(topic, 3)

    assert run(planted, settings=False, command=command) == 3

    lines = [line for line in capsys.readouterr().err.splitlines() if "refused" in line]
    assert [line.partition(", its settings")[0] for line in lines] == [
        "topic-0-0, topic-1-0, topic-2-0 and 2 more (5 logs): refused"
    ]

    run(planted, "--json", settings=False, command=command)

    (directory,) = json.loads(capsys.readouterr().out)["directories"]
    assert [(found["partition"], bool(found["refused"])) for found in directory["partitions"]] == [
        (f"{topic}-0", True) for topic in topics
    ]


def test_a_dry_run_tells_the_same_and_changes_nothing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, "--dry-run", "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert [(found["base_offset"], found["rule"]) for found in partition["deleted"]] == [
        (0, "retention.bytes"),
        (5, "retention.bytes"),
    ]
    assert planted.contents() == before


def test_times_past_all_calendars_are_told_as_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A producer that sends microseconds, and files that are kept for ever."""
    settings = {
        "retention.ms": -1,
        "retention.bytes": 0,
        "file.delete.delay.ms": 2**62,
        "message.timestamp.after.max.ms": 2**62,
    }
    with Planted(tmp_path, t=settings) as planted:
        planted.fill("t", 10, timestamp=NOW * 1000)

    assert run(planted) == 0

    said = capsys.readouterr().out
    assert f"{NOW * 1000} ms" in said
    assert f"{NOW + 2**62} ms" in said
