"""What an estimate says: by topic and by key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.estimating import SETTINGS, run
from tests.cli.planting import Planted
from tests.log.model import batch


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=3)
    return planted


def test_people_read_a_table(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(planted, "--prefix-size", 1) == 0

    printed = capsys.readouterr().out
    assert "What compaction would free" in printed
    assert "t: keys with the most bytes" in printed
    assert "t: keys with the most versions" in printed
    assert "t: by key prefix" in printed


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
