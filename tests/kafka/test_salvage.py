"""Kafka on what `recover --salvage` has left: segments with gaps, and one that has become empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli.main import run
from tests.kafka.conftest import had
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram
from tests.kafka.log_oracle import Json
from tests.log.recovery.test_salvaging import segments

MARKER = ".kafka_cleanshutdown"


@pytest.mark.parametrize(("words", "end"), [("1 # . | 1 1 | 1c .", 7), (". 1 # | 1 # . | 1a 1 1c", 9)])
def test_kafka_loads_a_salvaged_log_and_would_recover_it_to_the_same(
    kafka_jars: KafkaJars, tmp_path: Path, words: str, end: int
) -> None:
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    for base, batches in segments(words).items():
        (partition / f"{base:020d}.log").write_bytes(b"".join(data for _, data in batches))
    assert run(["recover", "--salvage", str(tmp_path / "data")]) == 1
    left = logs(partition)

    with had(lambda: JavaProgram(kafka_jars, "RecoveryOracle")) as kafka:
        clean = load(kafka, tmp_path / "data")
        (tmp_path / "data" / MARKER).unlink()
        (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink()
        unclean = load(kafka, tmp_path / "data")

    for answer in (clean, unclean):
        assert answer.get("offline") == [], answer
        assert (answer["logs"]["orders-0"]["logEnd"], answer["logs"]["orders-0"]["segments"]) == (end, 3)
    assert logs(partition) == left


def load(kafka: JavaProgram, directory: Path) -> Json:
    given = {"dirs": [str(directory)], "broker": {"log.cleaner.enable": "false"}, "topics": {}, "epoch": 1}
    return json.loads(kafka.ask(json.dumps(given)))


def logs(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob("*.log"))}
