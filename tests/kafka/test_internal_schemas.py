"""The checked-in table and vectors are what Kafka's jars hold and its classes make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stratalog.records.internal as package
from stratalog.records.internal.schema import TABLE
from tests.kafka.conftest import had
from tests.kafka.jars import find_java, resolve
from tests.records.internal import vectors

pytestmark = pytest.mark.kafka
TOOL = Path(__file__).parents[2] / "tools" / "read_kafka_schemas.py"


def test_the_table_is_what_the_jars_hold(tmp_path: Path) -> None:
    jars = had(resolve)
    read = tmp_path / "table.json"

    subprocess.run([sys.executable, TOOL, jars.folder, read], check=True, capture_output=True)

    assert package.__file__ is not None
    assert read.read_text() == (Path(package.__file__).parent / TABLE).read_text()


def test_kafka_makes_the_same_vectors(tmp_path: Path) -> None:
    jars = had(resolve)
    source = vectors.HERE / "KafkaMessages.java"
    made = [tmp_path / "messages.jsonl", tmp_path / "dumped.jsonl"]

    compiler = had(lambda: find_java("javac"))
    subprocess.run([compiler, "-nowarn", "-cp", jars.class_path, "-d", tmp_path, source], check=True)
    command = [jars.java, "-cp", f"{tmp_path}:{jars.class_path}", "KafkaMessages", *made]
    subprocess.run(command, check=True, capture_output=True)

    for path in made:
        assert vectors._lines(path) == vectors._lines(vectors.HERE / f"{path.name}.gz")
