"""Under Spark Connect: client and server started from the pip package, in a process of their own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stratalog
from tests.fixtures.records import T0
from tests.jobs.writing.sinking import by_partition, contents_of, staged_in
from tests.waiting import PATIENCE_S

HERE = Path(__file__).parent
CLEAN = HERE.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs"
CODECS_COUNT, TXN_COUNT = 120, 50  # records of these topics, by their dumps


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, archived: dict[str, str]) -> Path:
    """What a client has left, once it has ended."""
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    home = tmp_path_factory.mktemp("connect")
    with stratalog.open_log(home / "logs" / "orders-0", create=True) as log:
        for number in range(100):
            log.append(b"value %d" % number, timestamp=T0 + number)
    # As for Spark's own tests: the server takes any port that is free.
    environ = archived | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_TESTING": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, str(HERE / "connect_client.py"), str(CLEAN), str(home)]
    done = subprocess.run(
        command,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(scope="module")
def found(home: Path) -> dict[str, Any]:
    """What the client saw."""
    parsed: dict[str, Any] = json.loads((home / "found.json").read_text())
    return parsed


def test_the_source_is_found_and_read(found: dict[str, Any]) -> None:
    assert found["client"] == "pyspark.sql.connect.session"
    assert not found["imported"]  # what the server has is enough
    assert found["columns"] == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert (found["count"], found["pruned"]) == (CODECS_COUNT, TXN_COUNT)


def test_what_a_read_leaves_out_is_told_to_a_client_on_the_same_machine(found: dict[str, Any]) -> None:
    assert (found["trimmed"], found["told"]) == (13, [[3, 17]])


def test_errors_arrive_in_words(found: dict[str, Any]) -> None:
    assert "subscribe names nothing, which is not in" in found["read_error"]
    assert "give the option partitions" in found["write_error"]


def test_a_stream_runs_in_triggers_and_each_record_comes_once(found: dict[str, Any]) -> None:
    assert found["triggers"] == found["again"] == [40, 80, 100]
    assert found["values"] == [f"value {number}" for number in range(100)]


def test_batches_and_streams_are_written_once(home: Path) -> None:
    expected = sorted(b"%d" % number for number in range(50))

    for topic in ("batch", "stream"):
        written = by_partition(contents_of(home / "written"), topic)
        assert sorted(value or b"" for values in written.values() for value in values) == expected
    assert staged_in(home / "written") == []
