"""`stratalog quarantine list`, `show`, `restore` and `purge`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from tests.fixtures.catalog import log_dirs
from tests.manager.running import contents
from tests.operations.quarantined import recovered


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main.run(["quarantine", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_from_the_list_to_a_file_and_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, cut = recovered(tmp_path / "data")
    ids = {found["partition"]: found["id"] for found in document(capsys, "list", root)["ranges"]}

    shown = document(capsys, "show", root, "--id", ids["txn-0"])
    assert shown["totals"]["bytes"] == len(cut["txn-0"])
    document(capsys, "restore", root, "--id", ids["txn-0"], "--to", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == cut["txn-0"]
    assert document(capsys, "purge", root, "--all", "--dry-run")["dry_run"]
    assert len(document(capsys, "purge", root, "--all")["ranges"]) == len(ids)
    assert document(capsys, "list", root)["ranges"] == []


def test_the_directories_are_those_of_a_server_properties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, cut = recovered(tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={root}\n")

    assert len(document(capsys, "list", "--config", properties)["ranges"]) == len(cut)
    assert len(document(capsys, "list", "--config", properties, "--topic", "txn")["ranges"]) == 1


@pytest.mark.parametrize("choice", [[], ["--all", "--before", "2026-01-01"], ["--all", "--id", "x"]])
def test_purge_must_be_told_what(
    tmp_path: Path, choice: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root, _ = recovered(tmp_path / "data")
    before = contents(root)

    assert main.run(["quarantine", "purge", str(root), *choice]) == 2

    assert "--id, --before and --all" in capsys.readouterr().err
    assert contents(root) == before


def test_a_directory_without_a_quarantine_has_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    assert main.run(["quarantine", "list", str(logs)]) == 0

    assert capsys.readouterr().out == "Nothing is in quarantine.\n"


def test_an_unclean_directory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    (logs,) = log_dirs("4.3.1", "killed")

    assert main.run(["quarantine", "purge", str(logs), "--all", "--dry-run"]) == 3
    assert "was not shut down cleanly" in capsys.readouterr().err
