"""`stratalog du`: what fills the disk, and when retention frees it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.cli import main
from tests.fixtures.catalog import log_dirs
from tests.manager.running import contents, fixture_copy
from tests.operations.test_disk_tree import found_by_find, in_ncdu

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
(LOGS,) = log_dirs("4.3.1", "clean")


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main.run(["du", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_rows_are_topics_or_the_partitions_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, LOGS)["by"] == "topic"
    found = document(capsys, LOGS, "rolled")
    assert (found["by"], [use["name"] for use in found["uses"]]) == ("partition", ["rolled-0"])
    assert document(capsys, LOGS / "rolled-0")["uses"] == found["uses"]
    assert [use["name"] for use in document(capsys, LOGS, "--by", "directory")["uses"]] == [str(LOGS)]


def test_key_prefixes_end_with_a_colon_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    (whole,) = document(capsys, LOGS, "rolled", "--keys", "--top", "3")["keys"]
    (cut,) = document(capsys, LOGS, "rolled", "--keys", "--prefix-size", "1")["keys"]
    (parted,) = document(capsys, LOGS, "rolled", "--keys", "--prefix-delimiter", "1")["keys"]

    assert len(whole["prefixes"]) == 3
    assert [found["prefix"] for found in cut["prefixes"]] == ["k"]
    assert "k1" in [found["prefix"] for found in parted["prefixes"]]


def test_ncdu_s_file_is_written_beside_the_report_or_alone_to_stdout(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "files.json"
    assert main.run(["du", str(LOGS), "--ncdu", str(path)]) == 0
    assert "on disk" in capsys.readouterr().out
    assert main.run(["du", str(LOGS), "--ncdu", "-"]) == 0
    alone = json.loads(capsys.readouterr().out)

    written = json.loads(path.read_text())
    assert dict(in_ncdu(written[3])) == dict(in_ncdu(alone[3])) == found_by_find(LOGS)


def test_a_place_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main.run(["du", str(LOGS), "--ncdu", str(tmp_path / "no" / "file")]) == 3
    assert "its folder does not exist" in capsys.readouterr().err
    assert main.run(["du", str(LOGS), "--ncdu", "/dev/full"]) == 3
    assert "/dev/full: it could not be written: No space left" in capsys.readouterr().err


def test_ncdu_s_file_was_written_into_a_log_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    before = contents(data)

    assert main.run(["du", str(data), "--ncdu", str(data / "rolled-0" / f"{0:020d}.log")]) == 2

    assert "is inside a log directory" in capsys.readouterr().err
    assert contents(data) == before


def test_names_in_brackets_were_not_in_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "note.txt").write_text("mine")
    with stratalog.open_log(tmp_path / "keys-0", create=True) as log:
        log.append_many([stratalog.NewRecord(b"v", key) for key in (b"", b"", None, b"a", b"a", b"b")])
    (tmp_path / "keys-0").rename(data / "keys-0")

    assert main.run(["du", str(data), "--plain", "--top", "0"]) == 0
    assert main.run(["du", str(data), "keys", "--keys", "--plain", "--top", "2"]) == 0

    shown = {*re.findall(r"(?m)^\([a-z ]+\)", capsys.readouterr().out)}
    assert shown >= {"(other files)", "(empty key)", "(no key)", "(other keys)"}
    section = PAGE.read_text().partition("## `stratalog du`")[2].partition("\n## ")[0]
    assert {name for name in shown if f"`{name}`" not in section} == set()


def test_the_clock_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    early = document(capsys, LOGS, "binary", "--now", "2026-11-16")["uses"][0]
    late = document(capsys, LOGS, "binary", "--now", "2027-11-16")["uses"][0]

    assert (early["freed_now_bytes"], late["freed_now_bytes"]) == (0, late["log_bytes"])
    assert early["freed_next_bytes"] == early["log_bytes"]
