"""`stratalog demo` without Spark; tests/spark/test_demo.py runs it as users do."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from stratalog.cli.demo_damage import Planted, unexpected
from stratalog.engine.threads import ThreadEngine
from stratalog.files.disk import Disk
from stratalog.jobs.walk import walk_logs

SMALL = ["demo", "--engine", "threads", "--size", "4MB"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a demo that was told where to keep them."""
    directory = tmp_path_factory.mktemp("demo") / "logs"
    assert main.run([*SMALL, "--directory", str(directory)]) == 0
    return directory


def digest(directory: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(directory.rglob("*.log")):
        whole.update(str(path.relative_to(directory)).encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


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


def test_each_codec_has_a_topic(capsys: pytest.CaptureFixture[str]) -> None:
    main.run([*SMALL, "--json"])

    codecs = [topic["codecs"] for topic in document(capsys)["topics"]]
    assert sorted(codecs) == [["gzip"], ["lz4"], ["none"], ["snappy"], ["zstd"]]


def test_the_size_is_about_what_was_asked_for(kept: Path) -> None:
    size = sum(path.stat().st_size for path in kept.rglob("*.log"))

    assert 4_000_000 <= size <= 5_000_000


def test_the_tables_name_topics_and_damaged_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(SMALL) == 0

    printed = capsys.readouterr()
    for word in ("orders", "payments", "zstd", "one bit flipped", "last batch torn", "2026-01-01"):
        assert word in printed.out
    assert "All 5 planted damages were found, each at its byte, and nothing else." in printed.err


def test_the_same_seed_gives_the_same_bytes(kept: Path, tmp_path: Path) -> None:
    main.run([*SMALL, "--directory", str(tmp_path / "same")])
    main.run([*SMALL, "--directory", str(tmp_path / "other"), "--seed", "2"])

    assert digest(tmp_path / "same") == digest(kept)
    assert digest(tmp_path / "other") != digest(kept)


def test_what_was_kept_is_still_damaged(kept: Path) -> None:
    walks = walk_logs(ThreadEngine(), Disk(), [kept])

    assert sum(len(walk.damages) for walk in walks) == 5


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("data")

    assert main.run([*SMALL, "--directory", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_size_that_five_topics_do_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["demo", "--engine", "threads", "--size", "1MB"]) == 2
    assert "at least 4.0 MB" in capsys.readouterr().err


def test_a_difference_between_planted_and_found_is_told(kept: Path) -> None:
    walks = walk_logs(ThreadEngine(), Disk(), [kept])
    found = [damage for walk in walks for damage in walk.damages]
    planted = [Planted(path=damage.path, position=damage.position, what="x") for damage in found[1:]]
    planted.append(Planted(path="a.log", position=7, what="a bit flipped"))

    assert unexpected(planted, walks) == [
        "a bit flipped in a.log at byte 7 was not found",
        f"{found[0].path} at byte {found[0].position} was found and not planted",
    ]
