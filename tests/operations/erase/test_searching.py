"""What is to be erased is looked for by several readers at once, and told in the order of the partitions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from stratalog.directory.known_topics import TopicSources
from stratalog.engine.threads import ThreadEngine
from stratalog.log.cleaning.erase_selection import Selection
from stratalog.operations.erase import erasure
from stratalog.operations.erase.erase_report import ErasureReport
from stratalog.operations.erase.erasure import Erasure
from tests.cli.planting import Planted
from tests.log.model import NOW

TOPICS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    with Planted(tmp_path, **{topic: {"cleanup.policy": "compact"} for topic in TOPICS}) as planted:
        for number, topic in enumerate(TOPICS):
            planted.fill(topic, 10 + number, keys=3)
    return planted


def search(planted: Planted) -> ErasureReport:
    sources = TopicSources(topic_settings=planted.settings.read_text())
    return Erasure(
        directories=[str(planted.data)],
        names=TOPICS,
        selection=Selection.of([b"1"]),
        sources=sources,
        dry_run=True,
        clock=lambda: NOW,
    ).run()


def test_several_readers_find_what_one_finds_in_the_same_order(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "ThreadEngine", partial(ThreadEngine, 1))
    by_one = search(planted)
    monkeypatch.setattr(erasure, "ThreadEngine", partial(ThreadEngine, 4))
    by_four = search(planted)

    (directory,) = by_one.directories
    assert [partition.name for partition in directory.partitions] == [f"{topic}-0" for topic in TOPICS]
    assert all(partition.files for partition in directory.partitions)
    assert by_four == by_one
