"""`stratalog bench startup` with a real broker beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.kafka.jars import KafkaJars


def test_a_broker_loads_a_copy_of_the_directory(
    kafka_jars: KafkaJars, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--partitions", "2", "--segments", "2", "--segment-bytes", "1MiB", "--no-cold", "--readers", "2"]

    status = main.run(
        [
            "bench",
            "startup",
            *shape,
            "--strategy",
            "stratalog",
            "--json",
            "--kafka",
            str(kafka_jars.folder),
            "--work-dir",
            str(tmp_path),
        ]
    )

    assert status == 0
    rows = json.loads(capsys.readouterr().out)["measured"]
    found = {(row["strategy"], row["state"]): row["seconds"] for row in rows}
    assert found["Kafka itself", "unclean"] > 0
    assert found["Kafka itself", "clean"] > 0
