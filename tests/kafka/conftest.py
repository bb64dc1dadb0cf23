"""Kafka for tests: jars, brokers and the Java oracle.

If Kafka is not available, the tests that need it are skipped with the reason; with STRATALOG_REQUIRE_KAFKA=1
they fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests.kafka.broker import Broker
from tests.kafka.jars import NEWEST, KafkaJars, KafkaUnavailableError, resolve
from tests.kafka.log_oracle import LogOracle
from tests.kafka.oracle import RecordsOracle
from tests.kafka.recovery_quarry import Quarry, shared_quarry
from tests.required import give_up

T = TypeVar("T")


class MakeBroker(Protocol):
    """Starts a broker for this test alone; takes the arguments of Broker, and a release."""

    def __call__(self, *, release: str = NEWEST, **options: Any) -> Broker: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this folder `kafka`."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def kafka_jars() -> KafkaJars:
    """The jars of the newest release."""
    return had(resolve)


@pytest.fixture(scope="session")
def broker(kafka_jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests that neither stop it nor look at its directories as a whole."""
    with Broker(kafka_jars, tmp_path_factory.mktemp("broker")) as shared:
        yield shared


@pytest.fixture
def make_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeBroker]:
    """Brokers for this test alone, to stop, kill and restart; those left running are killed at its end."""
    made: list[Broker] = []

    def make(*, release: str = NEWEST, **options: Any) -> Broker:
        work = options.pop("work", None) or tmp_path_factory.mktemp(f"kafka-{release}-")
        made.append(Broker(had(lambda: resolve(release)), Path(work), **options))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="session")
def oracle(kafka_jars: KafkaJars) -> Iterator[RecordsOracle]:
    """Kafka's record classes, asked over a pipe."""
    with had(lambda: RecordsOracle(kafka_jars)) as records_oracle:
        yield records_oracle


@pytest.fixture(scope="session")
def log_oracle(kafka_jars: KafkaJars) -> Iterator[LogOracle]:
    """Kafka's UnifiedLog, asked over a pipe. A test opens its own log in it, and sets the clock."""
    with had(lambda: LogOracle(kafka_jars)) as running:
        yield running


@pytest.fixture(scope="session")
def quarries(kafka_jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Quarry]:
    """The killed broker with a number, created on first use and shared by all workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the run's own
    return cache(lambda number: shared_quarry(kafka_jars, folder / f"quarry-{number}", number))


def had(get: Callable[[], T]) -> T:
    """The result of `get`; without Kafka it skips the test, or fails it if Kafka is required."""
    try:
        return get()
    except KafkaUnavailableError as error:
        give_up("Kafka", error)
