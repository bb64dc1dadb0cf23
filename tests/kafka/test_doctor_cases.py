"""`stratalog doctor` says that a broker will not start exactly where Kafka 4.3.1 does not start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli.main import run
from tests import profile
from tests.kafka.healthy import HEALTHY, Healthy
from tests.kafka.jars import KafkaJars
from tests.kafka.planted import PLANTED, Plant, Planted
from tests.kafka.test_startup_refusals import PROPERTIES, AsItIs
from tests.kafka.tools import KafkaError

IS_DEEP = profile.current() == profile.DEEP
CHOSEN = (
    "a metadata.log.dir whose quorum-state is garbled",
    "a partition of the second directory that is a link to nowhere",
    "a snapshot of the metadata with a flipped byte",
    "metadata in the second directory of log.dirs",
    "the starts of logs zeroed in the second directory",
)
PLANTED_HERE = PLANTED if IS_DEEP else {name: PLANTED[name] for name in CHOSEN}
HEALTHY_HERE = HEALTHY if IS_DEEP else {name: HEALTHY[name] for name in ("killed",)}


def told(capsys: pytest.CaptureFixture[str], config: Path) -> tuple[bool, bool]:
    """Whether the broker starts, and whether it uses all its directories, by the word of `doctor`."""
    status = run(["doctor", "--config", str(config), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["may_start"] == (status in (0, 1))
    assert document["starts"] == ("will not start" not in document["verdict"])
    assert all(refusal["remedy"] for refusal in document["refusals"])
    return document["starts"], document["may_start"]


def done(broker: AsItIs) -> tuple[bool, bool]:
    """Whether it starts, and then uses all its directories."""
    try:
        broker.start()
        return True, not broker.log_lines("LogDirFailureChannel")
    except KafkaError:
        return False, False
    finally:
        broker.close()


@pytest.mark.parametrize("plant", PLANTED_HERE.values(), ids=PLANTED_HERE)
def test_a_planted_fault(
    kafka_jars: KafkaJars, tmp_path: Path, plant: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Planted.of(tmp_path)
    plant(node)
    broker = AsItIs(
        kafka_jars, tmp_path / "work", log_dirs=node.log_dirs, properties=PROPERTIES | node.properties
    )

    said = told(capsys, broker.write_config())

    assert not said[1]
    assert said == done(broker)


@pytest.mark.parametrize("make", HEALTHY_HERE.values(), ids=HEALTHY_HERE)
def test_a_healthy_directory(
    kafka_jars: KafkaJars, tmp_path: Path, make: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    directories = make(kafka_jars, tmp_path)
    capsys.readouterr()
    broker = AsItIs(kafka_jars, tmp_path / "work", log_dirs=directories, properties=PROPERTIES)

    assert told(capsys, broker.write_config()) == (True, True)

    assert done(broker) == (True, True)
    assert not [path for directory in directories for path in directory.glob("*-stray")]


def test_there_are_as_many_cases_as_promised() -> None:
    assert (len(PLANTED), len(HEALTHY)) == (44, 10)
