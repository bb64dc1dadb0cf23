"""`stratalog bench startup` with a real broker beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.kafka.jars import KafkaJars


def test_a_broker_loads_the_same_logs(
    kafka_jars: KafkaJars, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--partitions", "2", "--segments", "2", "--segment-bytes", "1MiB", "--many-segments", "0"]
    few = ["--no-cold", "--readers", "2", "--rounds", "1", "--strategy", "kafka-2.1"]
    where = ["--kafka", str(kafka_jars.folder), "--work-dir", str(tmp_path)]

    status = main.run(["bench", "startup", *shape, *few, *where, "--json"])

    assert status == 0
    rows = json.loads(capsys.readouterr().out)["measured"]
    found = {row["state"]: row for row in rows if row["strategy"] == "Kafka itself"}
    assert found.keys() == {"clean", "unclean"}
    for row in found.values():
        assert 0 < row["partition_seconds"] <= row["seconds"]
    assert not [*tmp_path.iterdir()]
