"""Transactions in the fixtures, against their records and the dump of __transaction_state.

tests/kafka/test_questions.py compares them with kafka-transactions.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.operations.report import Status
from stratalog.questions.transactions import TransactionsQuestion, TransactionsReport
from tests.fixtures.catalog import log_dirs, partitions
from tests.jobs.decoded import dumped_parts, parts
from tests.jobs.reading.making import kafka_rows
from tests.log.model import produced
from tests.manager.running import fixture_copy

T0 = 1_700_000_000_000
STATES = ("clean", "killed")


def asked(root: Path, *names: str, **options: Any) -> TransactionsReport:
    return TransactionsQuestion(directories=[str(root)], names=names, **options).run()


def logs(state: str) -> Path:
    (found,) = log_dirs("4.3.1", state)
    return found


def open_transactions(state: str) -> set[tuple[str, int, int]]:
    """(partition, producer, first offset) of transactions without a marker, by Kafka's own classes."""
    found: dict[tuple[str, int], int] = {}
    for partition in partitions("4.3.1", state):
        for batch, record in kafka_rows(partition):
            place = (partition.name, batch["producerId"])
            if batch["isControl"]:
                found.pop(place, None)
            elif batch["isTransactional"]:
                found.setdefault(place, record["offset"])
    return {(*place, offset) for place, offset in found.items()}


@pytest.mark.parametrize("state", STATES)
def test_open_transactions_are_those_without_a_marker(state: str) -> None:
    report = asked(logs(state))

    found = {(each.partition, each.producer_id, each.first_offset) for each in report.opened}
    assert found == open_transactions(state)
    assert bool(found) == (state == "killed")
    assert report.problems == ()


@pytest.mark.parametrize("state", STATES)
def test_transactional_ids_are_those_of_the_dump(state: str) -> None:
    expected: dict[str, tuple[int, int]] = {}
    for _, text in sorted(dumped_parts("transaction_state", state)[0].items()):
        if "payload: " in text:
            key, value = parts(text)
            expected[key["transactionalId"]] = (value["producerId"], value["producerEpoch"])

    report = asked(logs(state))

    assert {each.transactional_id: (each.producer_id, each.producer_epoch) for each in report.ids} == expected


def test_an_open_transaction_that_its_coordinator_knows_does_not_hang() -> None:
    (found,) = asked(logs("killed"), longest_timeout_ms=0).opened

    assert found.transactional_id == "left-open"
    assert not found.is_hanging


@pytest.fixture
def orphaned(tmp_path: Path) -> Path:
    """A broker's directory with a transactional batch of a producer that no coordinator knows."""
    root = fixture_copy("clean", tmp_path / "data")
    with stratalog.open_log(root / "rolled-0") as log:
        log.append_batch(produced(4711, 0, b"a", b"b", b"c", transactional=True, timestamp=T0))
    return root


def test_a_transaction_without_a_coordinator_hangs(orphaned: Path) -> None:
    report = asked(orphaned, "rolled")

    (found,) = report.hanging
    assert (found.partition, found.producer_id, found.first_offset, found.held_back) == (
        "rolled-0",
        4711,
        80,
        3,
    )
    assert report.status is Status.FINDINGS
    assert "in rolled-0, and keeps readers of committed records from 3 offsets" in report.verdict
    assert report.totals()["hanging"] == 1


def test_a_transaction_may_be_silent_for_its_timeout(orphaned: Path) -> None:
    report = asked(orphaned, "rolled", clock=lambda: T0 + 900_000)
    later = asked(orphaned, "rolled", clock=lambda: T0 + 900_001)

    assert (len(report.opened), len(report.hanging)) == (1, 0)
    assert report.verdict == "1 transaction open in the logs; none hangs."
    assert len(later.hanging) == 1


def test_without_the_coordinators_topic_nothing_is_said_to_hang(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_batch(produced(4711, 0, b"a", transactional=True, timestamp=T0))

    report = asked(tmp_path)

    assert (len(report.opened), len(report.hanging)) == (1, 0)
    assert report.words() == ["__transaction_state is not here: whether a transaction hangs is not known."]


def test_one_of_two_log_directories_does_not_say_that_nothing_hangs(tmp_path: Path) -> None:
    first = fixture_copy("killed", tmp_path / "data")
    second = tmp_path / "second"
    second.mkdir()
    shutil.copy(first / "meta.properties", second)
    for name in ("__transaction_state-0", "txn-0"):
        (first / name).rename(second / name)

    report = asked(second, longest_timeout_ms=0)

    assert report.words() == [
        "The cluster's metadata is not here, so __transaction_state may have partitions on other disks: "
        "whether a transaction hangs is not known."
    ]
    assert report.verdict == "1 transaction open in the logs; whether one hangs is not known."
    assert report.tables()[1].rows[0][-1] == "not known"
    assert "left-open" in {each.transactional_id for each in report.ids}
    assert TransactionsQuestion(directories=[str(first), str(second)]).run().words() == []


def test_all_producers_are_listed_if_that_is_asked_for(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_batch(produced(7, 0, b"a", b"b", timestamp=T0))

    report = asked(tmp_path, shows_all=True, clock=lambda: T0 + 1000)

    (found,) = report.producers
    assert (found.producer_id, found.last_sequence, found.last_timestamp) == (7, 1, T0)
    assert report.tables()[2].rows[0][:2] == ["orders-0", "7"]
    assert report.verdict == "No transaction is open in the logs that are here."
    assert asked(tmp_path, shows_all=True, clock=lambda: T0 + 86_400_000).producers == ()


def test_a_partition_of_an_open_transaction_that_is_not_here_is_named(tmp_path: Path) -> None:
    root = fixture_copy("killed", tmp_path / "data")
    (found,) = asked(root).opened
    shutil.rmtree(root / found.partition)

    verdict = asked(root).verdict

    assert verdict == (
        f"No transaction is open in the logs that are here; an open transaction includes {found.partition}, "
        "which is not here."
    )
