"""The logs of a demo: a topic for each codec, the same bytes for the same seed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.cli.demos import document

SMALL = ["demo", "--engine", "threads", "--size", "4MB"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a demo with --directory."""
    directory = tmp_path_factory.mktemp("demo") / "logs"
    assert main.run([*SMALL, "--directory", str(directory)]) == 0
    return directory


def digest(directory: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(directory.rglob("*.log")):
        whole.update(str(path.relative_to(directory)).encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()


def test_each_codec_has_a_topic(capsys: pytest.CaptureFixture[str]) -> None:
    main.run([*SMALL, "--json"])

    codecs = [topic["codecs"] for topic in document(capsys)["topics"]]
    assert sorted(codecs) == [["gzip"], ["lz4"], ["none"], ["snappy"], ["zstd"]]


def test_the_size_is_about_what_was_asked_for(kept: Path) -> None:
    size = sum(path.stat().st_size for path in kept.rglob("*.log"))

    assert 4_000_000 <= size <= 5_000_000


def test_the_same_seed_gives_the_same_bytes(kept: Path, tmp_path: Path) -> None:
    main.run([*SMALL, "--directory", str(tmp_path / "same")])
    main.run([*SMALL, "--directory", str(tmp_path / "other"), "--seed", "2"])

    assert digest(tmp_path / "same") == digest(kept)
    assert digest(tmp_path / "other") != digest(kept)
