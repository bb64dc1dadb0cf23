"""From which logs records are erased, and from which they are not."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from stratalog.directory.known_topics import TopicSources
from stratalog.engine.threads import ThreadEngine
from stratalog.log.cleaning.erase_selection import Selection
from stratalog.operations.erase import erasure
from stratalog.operations.erase.erase_report import ErasureReport
from stratalog.operations.erase.erasure import Erasure
from tests.cli.erasing import COUNT, SETTINGS, left, occurs, run, without
from tests.cli.planting import Planted
from tests.log.model import NOW, batch


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record. Values are offsets."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    return planted


def test_offsets_of_a_partition(planted: Planted) -> None:
    assert run(planted, "--offsets", "3,7-9", "--offsets", "20") == 0

    assert left(planted) == [offset for offset in range(COUNT) if offset not in (3, 7, 8, 9, 20)]


def test_a_topic_is_all_of_its_partitions_and_no_other_topic(tmp_path: Path) -> None:
    with Planted(tmp_path, t=SETTINGS, other=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
        planted.fill("other", COUNT, keys=3)
        log = planted.log("t", 1)
        log.append_as_leader(batch(b"second", key=b"0"), leader_epoch=0)
        log.update_high_watermark(1)

    assert run(planted, "--key", "0", name="t") == 0

    assert left(planted, "other") == list(range(COUNT))
    assert left(planted) == without(0)
    assert occurs(planted, b"second") == []


@pytest.mark.parametrize("name", [f"{5:020d}.bak.log", "5.log"])
def test_a_copy_that_a_broker_would_take_for_another_log_is_refused(
    planted: Planted, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = planted.data / "t-0"
    (folder / name).write_bytes((folder / f"{5:020d}.log").read_bytes())
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert f"'t-0/{name}': it would be mistaken for {5:020d}.log" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_link_to_a_log_elsewhere_is_refused(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "t-0" / f"{5:020d}.log"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "is a symbolic link" in capsys.readouterr().err
    assert planted.contents() == before


def test_a_tiered_topic_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", COUNT, keys=3)
    planted.settings.write_text(json.dumps({"t": {"remote.storage.enable": "true"}}))
    before = planted.contents()

    assert run(planted, "--key", "0") == 3

    assert "t-0: refused, the topic is tiered" in capsys.readouterr().err
    assert planted.contents() == before


def test_the_metadata_of_the_cluster_is_refused(planted: Planted) -> None:
    assert run(planted, "--key", "0", name="__cluster_metadata-0") == 3


TOPICS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture
def many_topics(tmp_path: Path) -> Planted:
    with Planted(tmp_path, **{topic: {"cleanup.policy": "compact"} for topic in TOPICS}) as many_topics:
        for number, topic in enumerate(TOPICS):
            many_topics.fill(topic, 10 + number, keys=3)
    return many_topics


def search(many_topics: Planted) -> ErasureReport:
    sources = TopicSources(topic_settings=many_topics.settings.read_text())
    return Erasure(
        directories=[str(many_topics.data)],
        names=TOPICS,
        selection=Selection.of([b"1"]),
        sources=sources,
        dry_run=True,
        clock=lambda: NOW,
    ).run()


def test_several_readers_find_what_one_finds_in_the_same_order(
    many_topics: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "ThreadEngine", partial(ThreadEngine, 1))
    by_one = search(many_topics)
    monkeypatch.setattr(erasure, "ThreadEngine", partial(ThreadEngine, 4))
    by_four = search(many_topics)

    (directory,) = by_one.directories
    assert [partition.name for partition in directory.partitions] == [f"{topic}-0" for topic in TOPICS]
    assert all(partition.files for partition in directory.partitions)
    assert by_four == by_one
