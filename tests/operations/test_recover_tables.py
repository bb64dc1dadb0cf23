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
