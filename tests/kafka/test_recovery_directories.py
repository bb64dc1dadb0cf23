"""Whole log directories: Kafka's LogManager starts and stops over one copy, we recover the other.

The topics' settings are what the killed broker's own metadata log says. Beside one damaged partition, a
checkpoint is deleted, cut or garbled. All partitions, the checkpoints and the marker are compared. Where a
malformed checkpoint takes Kafka's directory offline, Kafka is asked with that file deleted: that is how we
read it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from stratalog.config import read_server_properties
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import Outcome
from tests import profile
from tests.kafka.conftest import had
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram
from tests.kafka.log_oracle import Json, LogOracle
from tests.kafka.recovery_cases import Case, damage_once
from tests.kafka.recovery_compare import Recovered, differences, kafka_rebuilds, without_stale_tail
from tests.kafka.recovery_quarry import PROPERTIES, SHAPES, Quarry, checkpoint
from tests.kafka.tools import properties_text

CASES = 80
EPOCH = 7
STOPS_KAFKA = "small-index-0"  # scanned from its beginning it has more entries than its indexes hold
RECOVERY_POINTS, LOG_STARTS = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
BROKER = {"log.index.size.max.bytes": PROPERTIES["log.index.size.max.bytes"], "log.cleaner.enable": "false"}


@pytest.fixture(scope="module")
def kafka(kafka_jars: KafkaJars) -> Iterator[JavaProgram]:
    with had(lambda: JavaProgram(kafka_jars, "RecoveryOracle")) as running:
        yield running


@pytest.fixture(scope="module")
def quarry(quarries: Callable[[int], Quarry]) -> Quarry:
    return quarries(0)


@pytest.mark.parametrize("seed", range(profile.examples(CASES, quick=3)))
def test_a_damaged_directory_is_left_as_kafkas_log_manager_leaves_it(
    kafka: JavaProgram, log_oracle: LogOracle, quarry: Quarry, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    damaged = tmp_path / "case"
    shutil.copytree(quarry.directory, damaged, ignore=shutil.ignore_patterns(".lock", STOPS_KAFKA))
    name, how = random.choice([RECOVERY_POINTS, LOG_STARTS]), random.choice(list(CHECKPOINT_DAMAGES))
    CHECKPOINT_DAMAGES[how](damaged / name)
    cases = cases_of(quarry, damaged, forgotten=name if how != "not at all" else None)
    hurt = random.choice(cases)
    damage_once(hurt, random, log_oracle)
    words = f"{name} {how}; {hurt}"
    ours = shutil.copytree(damaged, tmp_path / "ours")
    # Stale batches that hide a log's end from Kafka are a separate difference: here Kafka runs without them.
    seen = without_stale_tail(log_oracle, hurt, tmp_path / "stale", int(time.time() * 1000))
    if seen is not hurt:
        shutil.copytree(seen.directory, hurt.directory, dirs_exist_ok=True)
    theirs = shutil.copytree(damaged, tmp_path / "kafka")

    answer = load(kafka, theirs)
    if answer.get("offline") or "already offline" in answer.get("message", ""):
        theirs = shutil.copytree(damaged, tmp_path / "kafka-again")  # in the first copy threads still work
        (theirs / name).unlink()
        answer = load(kafka, theirs)
    (report,) = recover_directories(
        [str(ours)], server=read_server_properties(properties_text(BROKER))
    ).directories

    assert report.outcome is Outcome.RECOVERED, f"{words}: {report.error}"
    assert json.loads((ours / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == -1
    if "error" in answer:
        return  # one partition keeps Kafka from starting: nothing to compare with
    for case in cases:
        partition = case.directory.name
        rebuilt = left = Recovered(directory=theirs / partition, marks=None, refusal=None)
        if case is hurt:
            rebuilt = kafka_rebuilds(log_oracle, case, left, tmp_path / "rebuilt", int(time.time() * 1000))
        told = differences(case, ours / partition, theirs / partition, rebuilt)
        assert not told, f"{partition}: {told} after {words}"
    for name in (RECOVERY_POINTS, LOG_STARTS):
        assert checkpoint(ours / name) == checkpoint(theirs / name), words
    before, after = checkpoint(damaged / HIGH_WATERMARKS), checkpoint(ours / HIGH_WATERMARKS)
    for case in cases:
        topic, marks = case.topic, answer["logs"][case.directory.name]
        if topic in before:
            clamped = min(max(before[topic], marks["logStart"]), marks["logEnd"])
            assert after[topic] == clamped, f"{topic}: {words}"


def cut_in_half(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def replace_in(old: str, new: str) -> Callable[[Path], None]:
    return lambda file: file.write_text(file.read_text().replace(old, new, 1)) and None


CHECKPOINT_DAMAGES: dict[str, Callable[[Path], None]] = {
    "not at all": lambda _: None,
    "deleted": Path.unlink,
    "empty": lambda file: file.write_bytes(b"") and None,
    "of another version": replace_in("0\n", "1\n"),
    "with a wrong count": replace_in("0\n", "0\n9"),
    "with a word for a number": replace_in(" 0 ", " 0 many"),
    "of noise": lambda file: file.write_bytes(Random(1).randbytes(60)) and None,
    "cut in half": cut_in_half,
}


def cases_of(quarry: Quarry, directory: Path, *, forgotten: str | None) -> list[Case]:
    """Every partition, as its checkpoints now describe it."""
    return [
        Case(
            directory=directory / partition.directory.name,
            config=partition.config,
            recovery_point=0 if forgotten == RECOVERY_POINTS else partition.recovery_point,
            log_start_offset=0 if forgotten == LOG_STARTS else partition.log_start_offset,
        )
        for partition in quarry.partitions
        if partition.directory.name != STOPS_KAFKA
    ]


def load(kafka: JavaProgram, directory: Path) -> Json:
    given = {"dirs": [str(directory)], "broker": BROKER, "topics": SHAPES, "epoch": EPOCH}
    return json.loads(kafka.ask(json.dumps(given)))
