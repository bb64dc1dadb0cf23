"""The logs of a demo: a topic for each codec, the same bytes for the same seed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stratalog.cli.demo_logs import build_logs
from stratalog.files.disk import Disk
from stratalog.operations.audit.audit import audit

SMALL = 4_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("demo")
    build_logs(directory, size=SMALL, seed=1, disk=Disk())
    return directory


def digest(directory: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(directory.rglob("*.log")):
        whole.update(str(path.relative_to(directory)).encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()


def test_each_codec_has_a_topic(built: Path) -> None:
    topics = audit([built]).to_document()["topics"]

    assert isinstance(topics, list)
    codecs = {tuple(topic["codecs"]) for topic in topics if not topic["topic"].startswith("__")}
    assert codecs == {("gzip",), ("lz4",), ("none",), ("snappy",), ("zstd",)}


def test_nothing_is_wrong_before_the_power_is_cut(built: Path) -> None:
    report = audit([built])

    assert report.status == 0, report.verdict


def test_the_size_is_about_what_was_asked_for(built: Path) -> None:
    size = sum(path.stat().st_size for path in built.rglob("*.log"))

    assert SMALL <= size <= SMALL * 1.25


def test_the_same_seed_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    build_logs(tmp_path / "same", size=SMALL, seed=1, disk=Disk())
    build_logs(tmp_path / "other", size=SMALL, seed=2, disk=Disk())

    assert digest(tmp_path / "same") == digest(built)
    assert digest(tmp_path / "other") != digest(built)
