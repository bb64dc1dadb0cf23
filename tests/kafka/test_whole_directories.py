"""Whole directories with several damages each: a broker then does what `recover` says.

A dry run and the run agree: the same status, the same cuts, the same ends. After status 0 and 1 a real broker
starts, loads every log without a repair and takes no directory offline; after status 3 it does not.
`retain --recover` deletes what its dry run lists: those segments are gone from the disk then, and no others.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratalog.cli.main import run
from stratalog.files.names import REPLICATION_OFFSET_CHECKPOINT
from tests import profile
from tests.counting import Count
from tests.kafka.broker import Broker
from tests.kafka.jars import KafkaJars
from tests.kafka.log_oracle import LogOracle
from tests.kafka.recovery_quarry import PROPERTIES, Quarry
from tests.kafka.test_recover import repairs
from tests.kafka.tools import KafkaError, properties_text
from tests.kafka.whole_directories import Node, make_node

# As many again, of a directory of Kafka's own fixtures, are in test_recover_verdict.py.
STARTED = {profile.QUICK: 3, profile.CI: 10, profile.DEEP: 100}
CASES = {profile.QUICK: 3, profile.CI: 20, profile.DEEP: 200}
QUARRIES = {profile.QUICK: 1, profile.CI: 1, profile.DEEP: 4}
# A copy of a killed broker is let in when the session of the one that was killed has run out.
SHORT_SESSION = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
# Topics of several segments each, so many that no node has all of them damaged.
MUST_LOSE = ("plain", "every-batch", "server-time", "sparse", "preallocated")
OFFLINE = (
    r"Stopping serving (logs|replicas) in dir|Failed to create or validate data directory|"
    r"Error while loading log dir"
)


class Judge(Broker):
    """A broker that uses its directories as they are, and creates nothing that is missing."""

    def _prepare(self, config: Path) -> None:
        pass

    def is_well(self) -> bool:
        """Whether it starts, with all of its directories."""
        try:
            self.start()
        except KafkaError:
            return False
        return not self.log_lines(OFFLINE)


@pytest.mark.parametrize("seed", range(STARTED[profile.current()]))
def test_what_recover_says_of_a_directory_is_what_a_broker_does(
    kafka_jars: KafkaJars,
    log_oracle: LogOracle,
    quarries: Callable[[int], Quarry],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    counts: Count,
    seed: int,
) -> None:
    quarry = quarries(seed % QUARRIES[profile.current()])
    node = make_node(quarry, seed, tmp_path, log_oracle)
    judge = Judge(
        kafka_jars, tmp_path / "work", log_dirs=node.log_dirs, properties=PROPERTIES | SHORT_SESSION
    )
    config = tmp_path / "server.properties"
    config.write_text(settings_of(node))

    planned, plan = recover(capsys, "--dry-run", "--config", str(config))
    status, report = recover(capsys, "--config", str(config))

    assert planned == status, f"the dry run said {planned}, the run {status}: {node}"
    assert outcome(plan) == outcome(report), str(node)
    with closing(judge):
        is_well = judge.is_well()
        words = f"recover said {status}, the broker {'starts' if is_well else 'does not start'}: {node}"
        told = "\n".join(judge.log_lines(r"ERROR|FATAL|Exception")[-20:])
        assert is_well == (status in (0, 1)), f"{words}\n{told}"
        if is_well:
            assert not repairs(judge), str(node)
    counts("directories, by the status of recover", {str(status): 1})


@pytest.mark.parametrize("seed", range(CASES[profile.current()]))
def test_what_a_dry_run_of_retain_lists_is_what_retain_deletes(
    log_oracle: LogOracle,
    quarries: Callable[[int], Quarry],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    counts: Count,
    seed: int,
) -> None:
    quarry = quarries(seed % QUARRIES[profile.current()])
    node = make_node(quarry, seed, tmp_path, log_oracle)
    # Some of the topics are to lose segments, by their size and by the times of their records.
    random, now = Random(seed), int(time.time() * 1000)
    wanted = {
        case.topic: {
            "cleanup.policy": "delete",
            "retention.bytes": str(random.choice([-1, 5000, 20_000])),
            "retention.ms": str(random.choice([-1, 1, now // 2])),
        }
        for case in node.partitions
    }
    # Of each of these something is to go in any case, unless its damage is in the way.
    for topic in MUST_LOSE:
        wanted[topic] |= {"retention.bytes": "1", "retention.ms": "1"}
    (tmp_path / "topics.json").write_text(json.dumps(wanted))
    (tmp_path / "server.properties").write_text(settings_of(node))
    options = [
        "retain",
        "--recover",
        "--json",
        "--config",
        str(tmp_path / "server.properties"),
        "--topic-settings",
        str(tmp_path / "topics.json"),
    ]

    before = live_logs(node)
    planned = run([*options, "--dry-run"])
    plan = capsys.readouterr()
    assert live_logs(node) == before, str(node)
    status = run(options)
    report = capsys.readouterr()
    after = live_logs(node)

    assert planned == status, (
        f"the dry run said {planned}, the run {status}: {node}\n{plan.err}\n{report.err}"
    )
    document = json.loads(report.out) if report.out else {}
    found = deleted(document)
    assert deleted(json.loads(plan.out) if plan.out else {}) == found, str(node)
    # Without high watermarks nothing is known to be replicated, and so nothing is deleted.
    has_lost_watermarks = REPLICATION_OFFSET_CHECKPOINT in str(node)
    assert any(found.values()) or has_lost_watermarks or status in (2, 3), f"{node}\n{report.err}"
    listed, removed, may_be_replaced = names_of(found), cut_whole(document), replaced(document)
    # A run that is refused without a report may have recovered before: then its cuts are not reported.
    for partition, names in before.items() if document else ():
        gone = names - after[partition] - removed.get(partition, set())
        if partition not in may_be_replaced:
            assert gone == listed.get(partition, set()), f"{partition}: {node}"
        assert not listed.get(partition, set()) & after[partition], f"{partition}: {node}"
    counts("segments that retain deletes, by its status", {str(status): sum(map(len, found.values()))})
    counts("runs of retain that delete", {str(any(found.values())): 1})


def settings_of(node: Node) -> str:
    """The broker's server.properties about its directories and logs."""
    own = {"node.id": "1", "log.dirs": ",".join(map(str, node.log_dirs))}
    return properties_text(PROPERTIES | own)


def recover(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    """The status of `stratalog recover`, and its report."""
    status = run(["recover", "--json", *options])
    printed = capsys.readouterr()
    return status, json.loads(printed.out) if printed.out else {}


def outcome(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    """A report's facts of each partition: where it starts and ends, and what is cut off."""
    return [
        (
            directory["directory"],
            partition["partition"],
            partition["log_start_offset"],
            partition["log_end_offset"],
            [(cut["file"], cut["position"], cut["bytes"], cut["first_offset"]) for cut in partition["cuts"]],
        )
        for directory in report.get("directories", [])
        for partition in directory["partitions"]
    ]


def deleted(report: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The segments that a report of `retain` lists, by directory and partition."""
    return {
        (directory["directory"], partition["partition"]): partition["deleted"]
        for directory in report.get("directories", [])
        for partition in directory["partitions"]
    }


def names_of(found: dict[tuple[str, str], Any]) -> dict[tuple[str, str], set[str]]:
    """The .log files of these segments."""
    return {
        partition: {f"{segment['base_offset']:020d}.log" for segment in segments}
        for partition, segments in found.items()
    }


def live_logs(node: Node) -> dict[tuple[str, str], set[str]]:
    """The .log files of each partition that a broker loads as segments."""
    return {
        (str(log_dir), partition.name): {
            file.name for file in partition.glob("*.log") if re.fullmatch(r"\d{20}\.log", file.name)
        }
        for log_dir in node.log_dirs
        for partition in log_dir.iterdir()
        if partition.is_dir()
    }


def cut_whole(report: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    """The segments of which recovery leaves nothing, by directory and partition."""
    return {
        place: {cut["file"] for cut in partition["cuts"] if cut["whole_segment"]}
        for place, partition in recovered(report).items()
    }


def replaced(report: dict[str, Any]) -> set[tuple[str, str]]:
    """The partitions in which recovery finishes what a cleaner has begun: others take the segments' place."""
    return {
        place
        for place, partition in recovered(report).items()
        if any(finding["kind"] in ("unfinished_swap", "split_segment") for finding in partition["findings"])
    }


def recovered(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The result of the recovery before it, by directory and partition."""
    return {
        (directory["directory"], partition["partition"]): partition
        for directory in (report.get("recovery") or {}).get("directories", [])
        for partition in directory["partitions"]
    }
