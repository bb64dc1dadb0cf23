"""Which Kafka is measured beside, if none is named. What it then does: tests/kafka/test_bench_startup.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli.startup.rival import Rival, find_kafka
from stratalog.errors import UsageError


def make_kafka(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "kafka_2.13-4.3.1.jar").touch()
    return folder


def test_the_newest_release_of_the_cache_that_is_known_is_found(tmp_path: Path) -> None:
    cache = tmp_path / "stratalog" / "kafka"
    for release in ("2.8.2", "4.3.1", "4.10.0"):
        make_kafka(cache / release)
    (cache / "4.11.0").mkdir()  # without jars

    assert find_kafka({"XDG_CACHE_HOME": str(tmp_path)}) == cache / "4.10.0"


def test_a_kafka_on_the_path_comes_first(tmp_path: Path) -> None:
    make_kafka(tmp_path / ".cache" / "stratalog" / "kafka" / "4.3.1")
    make_kafka(tmp_path / "kafka" / "libs")
    script = tmp_path / "kafka" / "bin" / "kafka-server-start.sh"
    script.parent.mkdir()
    script.touch(mode=0o755)

    assert find_kafka({"HOME": str(tmp_path), "PATH": str(script.parent)}) == tmp_path / "kafka"


def test_without_any_kafka_or_home_nothing_is_found(tmp_path: Path) -> None:
    make_kafka(tmp_path / ".cache" / "stratalog" / "kafka" / "2.8.2")

    assert find_kafka({"HOME": str(tmp_path)}) is None


def test_a_kafka_without_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(UsageError, match="there is no `java`"):
        Rival(make_kafka(tmp_path / "kafka"))
