"""Two log directories of one broker with different clean-shutdown files: what the controller learns.

A broker that was taken for cleanly stopped generates no record at its registration; else one for each of its
partitions, as acknowledged records may be gone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.cli.main import run
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import resolve

MARKER = ".kafka_cleanshutdown"
NAMES = ("first", "second")
TOPIC = "orders"
NO_EPOCH = {"version": 0, "brokerEpoch": -1}
SAYS_NOTHING = {"version": 0}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker with two log directories leaves at a clean stop, with partitions in both."""
    work = tmp_path_factory.mktemp("stopped")
    with Broker(had(resolve), work, log_dirs=[work / name for name in NAMES]) as broker:
        create_topic(broker.bootstrap, TOPIC, partitions=4)
        produce(producer(broker.bootstrap), TOPIC, [{"value": b"%d" % number} for number in range(20)])
        broker.stop()
    assert all(list((work / name).glob(f"{TOPIC}-*")) for name in NAMES)
    return work


@pytest.fixture
def broker(stopped: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker over copies of those directories, which is not started yet."""
    for name in NAMES:
        shutil.copytree(stopped / name, tmp_path / name, ignore=shutil.ignore_patterns(".lock"))
    made = Broker(had(resolve), tmp_path, log_dirs=[tmp_path / name for name in NAMES])
    yield made
    made.close()


def marker(directory: Path) -> object:
    return json.loads((directory / MARKER).read_bytes())


def is_taken_for_clean(broker: Broker) -> bool:
    """Start it; what does the controller make of its registration?"""
    broker.start()
    (line,) = broker.wait_for_line(r"Registering a new incarnation of broker 1")
    return "Generated 0 record(s)" in line


@pytest.mark.parametrize("unclean", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_beside_a_clean_directory_a_recovered_one_is_still_an_unclean_stop(
    broker: Broker, unclean: int
) -> None:
    recovered, clean = broker.log_dirs[unclean], broker.log_dirs[1 - unclean]
    before = (clean / MARKER).read_bytes()
    (recovered / MARKER).unlink()

    assert run(["recover", *map(str, broker.log_dirs)]) in (0, 1)

    assert marker(recovered) == SAYS_NOTHING
    assert (clean / MARKER).read_bytes() == before
    assert not is_taken_for_clean(broker)
    assert not broker.log_lines("Recovering unflushed segment.*orders")


@pytest.mark.parametrize("number", [0, 1])
def test_a_broker_passes_over_no_epoch_before_another_directorys(broker: Broker, number: int) -> None:
    """This is why a clean-shutdown file that must promise nothing does not say -1 there."""
    (broker.log_dirs[number] / MARKER).write_text(json.dumps(NO_EPOCH))

    assert is_taken_for_clean(broker) == (number == 0)


@pytest.mark.parametrize("failing", [None, 0, pytest.param(1, marks=pytest.mark.deep)])
def test_with_one_directory_failing_no_epoch_is_promised(broker: Broker, failing: int | None) -> None:
    for directory in broker.log_dirs:
        (directory / MARKER).unlink()
    link = None
    if failing is not None:
        partition = next(broker.log_dirs[failing].glob(f"{TOPIC}-*"))
        link = partition / "leader-epoch-checkpoint"
        link.rename(partition / "moved away")
        link.symlink_to("moved away")

    code = run(["recover", "--process-crash", *map(str, broker.log_dirs)])

    if link is None:
        assert code in (0, 1)
        assert is_taken_for_clean(broker)
        return
    assert code == 3
    for number, directory in enumerate(broker.log_dirs):
        assert (directory / MARKER).exists() == (number != failing)
        assert number == failing or marker(directory) == NO_EPOCH
    (link.parent / "moved away").replace(link)
    assert not is_taken_for_clean(broker)
