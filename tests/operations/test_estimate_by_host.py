"""Each host estimates its own directories, and one report has the topics of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.directory.known_topics import TopicSources
from stratalog.errors import UsageError
from stratalog.operations.estimate import Estimation
from stratalog.operations.estimate_by_host import estimate_by_host
from stratalog.operations.report import Status
from tests.cli.compacting import SETTINGS
from tests.cli.planting import SET_SIZE, Planted
from tests.engine.on_hosts import Hosts
from tests.log.model import NOW
from tests.operations.audit.test_audit import Unlistable


def planted_in(root: Path, keys: int) -> Planted:
    root.mkdir()
    with Planted(root, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=keys)
    return planted


def test_each_replica_is_estimated_on_its_host(tmp_path: Path) -> None:
    first, second = planted_in(tmp_path / "first", 3), planted_in(tmp_path / "second", 5)
    asked = Estimation(
        directories=(), sources=TopicSources(topic_settings=first.settings.read_text()), names=["t"]
    )

    report = estimate_by_host(Hosts("b1", "b2"), [f"b1:{first.data}", f"b2:{second.data}"], asked, NOW)

    # Of twenty records in whole segments one of each key stays.
    assert [(topic.topic, topic.freed) for topic in report.topics] == [
        ("b1:t", 17 * SET_SIZE),
        ("b2:t", 15 * SET_SIZE),
    ]
    assert [len(topic.by_versions) for topic in report.topics] == [3, 5]
    assert report.to_arrow().column("directory").to_pylist() == [f"b1:{first.data}", f"b2:{second.data}"]
    assert report.status is Status.FINE


def test_what_cannot_be_placed_is_said_with_exit_status_3(tmp_path: Path) -> None:
    first = planted_in(tmp_path / "first", 3)
    asked = Estimation(directories=(), sources=TopicSources(topic_settings=first.settings.read_text()))

    report = estimate_by_host(Hosts("b1"), [f"{first.data}", f"b2:{first.data}"], asked, NOW)

    assert report.status is Status.FAILED
    assert report.words()[0] == f"b2:{first.data} No executor runs on this host. The hosts are: b1."
    assert [topic.topic for topic in report.topics] == ["b1:t"]


def test_a_mistyped_topic_was_estimated_to_free_nothing(tmp_path: Path) -> None:
    first = planted_in(tmp_path / "first", 3)
    sources = TopicSources(topic_settings=first.settings.read_text())
    asked = Estimation(directories=(), sources=sources, names=["tt"])

    with pytest.raises(UsageError, match=r"^tt: no host has such a topic or partition in"):
        estimate_by_host(Hosts("b1"), [f"b1:{first.data}"], asked, NOW)

    report = estimate_by_host(Hosts("b1"), [f"b1:{first.data}", "b2:/x"], asked, NOW)
    assert report.status is Status.FAILED
    assert any("tt: no host that could be asked" in line for line in report.words())


@pytest.mark.parametrize("host", ["b1:", ""])
def test_one_disk_that_cannot_be_read_failed_its_whole_host(tmp_path: Path, host: str) -> None:
    first, gone = planted_in(tmp_path / "first", 3), tmp_path / "gone"
    sources = TopicSources(topic_settings=first.settings.read_text())
    places = [f"{host}{gone}", f"b1:{first.data}"]

    for names in (["t"], []):
        asked = Estimation(directories=(), sources=sources, names=names)
        report = estimate_by_host(Hosts("b1", disk=Unlistable(gone)), places, asked, NOW)

        assert [(topic.topic, topic.freed) for topic in report.topics] == [("b1:t", 17 * SET_SIZE)]
        assert report.status is Status.FAILED
        (problem,) = report.problems
        assert problem == f"b1: {gone}: input/output error"


def test_a_topic_that_may_be_on_a_disk_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    first, gone = planted_in(tmp_path / "first", 3), tmp_path / "gone"
    asked = Estimation(directories=(), names=["elsewhere"])
    places = [f"b1:{first.data}", f"b1:{gone}"]

    report = estimate_by_host(Hosts("b1", disk=Unlistable(gone)), places, asked, NOW)

    assert report.topics == ()
    assert report.status is Status.FAILED
    assert any("elsewhere: no host that could be asked" in line for line in report.problems)
