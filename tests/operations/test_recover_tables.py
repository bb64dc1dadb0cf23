"""The report of a recovery, as tables and as JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.recovering import run, tear
from tests.fixtures import catalog


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    return Path(shutil.copytree(source, tmp_path / "data"))


@pytest.fixture
def properties(killed: Path, tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker,controller\nlog.dirs={killed}\n"
        "log.index.size.max.bytes=4096\nlog.index.interval.bytes=512\n"
    )
    return file


def test_cuts_are_told_with_their_place_and_exit_1(
    properties: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tear(killed)

    assert run("--config", properties) == 1

    shown = capsys.readouterr().out
    assert "rolled-0" in shown
    assert "stratalog-quarantine-rolled-0-00000000000000000088.log-1025" in shown
    assert (killed / "stratalog-quarantine-rolled-0-00000000000000000088.log-1025").stat().st_size == 16


def test_the_report_as_json(properties: Path, killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tear(killed)

    assert run("--config", properties, "--json", "--process-crash") == 1

    document = json.loads(capsys.readouterr().out)
    (directory,) = document["directories"]
    assert (directory["outcome"], directory["broker_epoch"]) == ("recovered", 157)
    (rolled,) = [found for found in directory["partitions"] if found["partition"] == "rolled-0"]
    (cut,) = rolled["cuts"]
    assert (cut["file"], cut["position"], cut["bytes"]) == ("00000000000000000088.log", 1025, 16)
    assert rolled["log_end_offset"] == cut["first_offset"] == 100


@pytest.mark.parametrize("is_planned", [True, False])
def test_files_that_wait_for_their_deletion_hid_the_other_findings(
    killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_planned: bool
) -> None:
    deleted = [f"{offset:020d}.{kind}.deleted" for offset in range(40) for kind in ("log", "index")]
    for name in deleted:
        (killed / "rolled-0" / name).write_bytes(b"")
    (killed / "codecs-0" / deleted[0]).write_bytes(b"")
    options = ["--dry-run"] if is_planned else []
    copy = shutil.copytree(killed, tmp_path / "copy")

    assert run(killed, "--plain", *options) == 0

    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines() if "delet" in line]
    assert lines == [
        ["codecs-0", deleted[0], "renamed to be deleted.", "It is deleted."],
        ["rolled-0", "", "80 files wait for their deletion.", "They are deleted."],
    ]
    assert run(copy, "--json", *options) == 0
    partitions = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    (rolled,) = [each for each in partitions if each["partition"] == "rolled-0"]
    assert {each["file"] for each in rolled["findings"]} >= {*deleted}
