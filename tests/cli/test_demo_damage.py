"""Damage that a demo plants, and finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.demo_damage import Planted, log_damages, unexpected
from stratalog.operations.audit.audit import audit
from tests.cli.demos import document

SMALL = ["demo", "--engine", "threads", "--size", "4MB"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a demo with --directory."""
    directory = tmp_path_factory.mktemp("demo") / "logs"
    assert main.run([*SMALL, "--directory", str(directory)]) == 0
    return directory


def test_exactly_the_planted_damage_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*SMALL, "--json"]) == 0

    result = document(capsys)
    planted = {(damage["path"], damage["position"]) for damage in result["planted"]}
    assert len(planted) == 5
    assert planted == {
        (f"{found['directory']}/{found['partition']}/{found['file']}", found["position"])
        for found in result["findings"]
        if found["file"].endswith(".log") and found["position"] is not None
    }
    assert result["problems"] == []


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("size", ["5MB", "12MB"])
def test_other_seeds_and_sizes_find_it_too(seed: int, size: str) -> None:
    assert main.run(["demo", "--engine", "threads", "--size", size, "--seed", str(seed), "--json"]) == 0


def test_a_difference_between_planted_and_found_is_told(kept: Path) -> None:
    report = audit([kept])
    found = [
        (str(Path(each.directory, each.partition, each.file)), each.position or 0)
        for each in log_damages(report)
    ]
    planted = [Planted(path=path, position=position, what="x") for path, position in found[1:]]
    planted.append(Planted(path="a.log", position=7, what="a bit flipped"))

    assert unexpected(planted, report) == [
        "a bit flipped in a.log at byte 7 was not found",
        f"{found[0][0]} at byte {found[0][1]} was found and not planted",
    ]
