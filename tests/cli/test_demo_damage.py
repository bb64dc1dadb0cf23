"""Damage that a demo plants, and finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.demo_damage import Planted, unexpected
from stratalog.engine.threads import ThreadEngine
from stratalog.files.disk import Disk
from stratalog.jobs.walk import walk_logs
from tests.cli.demos import document

SMALL = ["demo", "--engine", "threads", "--size", "4MB"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a demo that was told where to keep them."""
    directory = tmp_path_factory.mktemp("demo") / "logs"
    assert main.run([*SMALL, "--directory", str(directory)]) == 0
    return directory


def test_exactly_the_planted_damage_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*SMALL, "--json"]) == 0

    result = document(capsys)
    planted = {(damage["path"], damage["position"]) for damage in result["planted"]}
    assert len(planted) == 5
    assert planted == {(damage["path"], damage["position"]) for damage in result["damages"]}
    assert result["problems"] == []


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("size", ["5MB", "12MB"])
def test_other_seeds_and_sizes_find_it_too(seed: int, size: str) -> None:
    assert main.run(["demo", "--engine", "threads", "--size", size, "--seed", str(seed), "--json"]) == 0


def test_a_difference_between_planted_and_found_is_told(kept: Path) -> None:
    walks = walk_logs(ThreadEngine(), Disk(), [kept])
    found = [damage for walk in walks for damage in walk.damages]
    planted = [Planted(path=damage.path, position=damage.position, what="x") for damage in found[1:]]
    planted.append(Planted(path="a.log", position=7, what="a bit flipped"))

    assert unexpected(planted, walks) == [
        "a bit flipped in a.log at byte 7 was not found",
        f"{found[0].path} at byte {found[0].position} was found and not planted",
    ]
