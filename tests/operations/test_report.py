"""What every report ends with: may the broker be started?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.operations.report import DirectoriesReport, Status, Table, WorkedDirectory
from tests.cli.planting import Planted
from tests.cli.retaining import run, tear
from tests.log.model import NOW
from tests.manager.running import fixture_copy


def test_what_recovery_cuts_off_is_in_the_text_of_retain_too(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    tear(planted, "orders", 10)

    assert run(planted, "--recover") == 1

    shown = capsys.readouterr().out
    assert "Cut off" in shown
    assert "Deleted segments" in shown


def test_what_keeps_the_broker_from_starting_is_in_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    given = ["retain", "--config", str(properties), "--topic", "rolled", "--now", str(NOW), "--dry-run"]
    assert main.run([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["may_start"]
    (data / "meta.properties").unlink()

    assert main.run([*given, "--json"]) == 3

    document = json.loads(capsys.readouterr().out)
    assert not document["may_start"]
    assert "The broker must not be started yet: it refuses to start" in document["verdict"]
    assert [found["name"] for found in document["refusals"]] == ["meta.properties"]


class OfDirectories(DirectoriesReport):
    """A report with nothing but its directories."""

    left_count = 0
    to_recover = ()

    def tables(self) -> list[Table]:
        return self.tables_with()

    def words(self) -> list[str]:
        return [words for directory in self.directories for words in directory.error_words]

    def totals(self) -> dict[str, int]:
        return {}

    def to_document(self) -> dict[str, object]:
        return self.document_of([])


def test_a_directory_that_failed_is_not_one_that_was_not_begun() -> None:
    report = OfDirectories(
        directories=(
            WorkedDirectory(directory="/a"),
            WorkedDirectory(directory="/b", error="the disk is full"),
            WorkedDirectory(directory="/c", error="it cannot be read", is_begun=False),
        )
    )

    assert (report.failed_directories, report.unread_directories) == (["/b"], ["/c"])
    assert report.words() == ["/b: failed. the disk is full", "/c: nothing was done. it cannot be read"]
    assert report.status is Status.FAILED
