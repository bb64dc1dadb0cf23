"""Whose settings are known, so that records of theirs may be deleted; and why of the others none may be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stratalog.directory.known_topics import KnownTopics, TopicSources, check_settings
from stratalog.directory.layout import PartitionEntry, classify
from stratalog.errors import UsageError
from stratalog.files.disk import Disk
from tests.directory.recovery.recovering import SERVER

METADATA = "__cluster_metadata-0"


def entry_of(directory: Path, name: str) -> PartitionEntry:
    return next(entry for entry in classify(Disk(), str(directory)).partitions if entry.name == name)


def refusal(directory: Path, name: str = "rolled-0", **sources: object) -> str | None:
    known = KnownTopics(Disk(), [str(directory)], TopicSources(**sources))  # type: ignore[arg-type]
    return known.refusal(str(directory), entry_of(directory, name))


def settings(**topics: dict[str, object]) -> str:
    return json.dumps(topics)


def test_a_broker_s_own_sources_make_all_its_topics_known(clean: Path) -> None:
    names = [entry.name for entry in classify(Disk(), str(clean)).partitions]

    assert len(names) == 12
    assert {name: refusal(clean, name, server=SERVER) for name in names} == dict.fromkeys(names)


def test_without_the_broker_s_file_a_setting_that_only_it_may_have_is_asked_for(clean: Path) -> None:
    assert (refusal(clean) or "").startswith("cleanup.policy comes from its broker")


def test_without_metadata_no_topic_is_known(clean: Path) -> None:
    shutil.rmtree(clean / METADATA)

    assert "there is no __cluster_metadata here" in (refusal(clean, server=SERVER) or "")


def test_a_topic_that_a_user_names_is_known_without_anything_else(clean: Path) -> None:
    shutil.rmtree(clean / METADATA)
    named = settings(rolled={"retention.ms": 5})

    known = KnownTopics(Disk(), [str(clean)], TopicSources(topic_settings=named))

    assert known.refusal(str(clean), entry_of(clean, "rolled-0")) is None
    assert known.of("rolled").retention_ms == 5
    assert known.refusal(str(clean), entry_of(clean, "txn-0")) is not None


def test_a_user_s_settings_go_over_the_cluster_s(clean: Path) -> None:
    named = settings(rolled={"retention.ms": 5})

    known = KnownTopics(Disk(), [str(clean)], TopicSources(server=SERVER, topic_settings=named))

    assert known.of("rolled").retention_ms == 5
    assert known.of("rolled").segment_size == 1500  # by the metadata


def test_the_metadata_may_be_in_another_directory(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.move(clean / METADATA, tmp_path / "other" / METADATA)

    assert refusal(clean, server=SERVER, metadata_directory=str(tmp_path / "other")) is None


def test_a_topic_that_the_cluster_does_not_have_is_not_known(clean: Path) -> None:
    (clean / "rolled-0").rename(clean / "unheard-of-0")

    assert "does not know the topic" in (refusal(clean, "unheard-of-0", server=SERVER) or "")


def test_a_partition_without_its_topic_s_id_may_be_another_topic_s(clean: Path) -> None:
    (clean / "rolled-0" / "partition.metadata").unlink()

    assert "would set it aside as stray" in (refusal(clean, server=SERVER) or "")


@pytest.mark.parametrize("text", ["", "version: 0\ntopic_id: ?"])
def test_an_id_that_cannot_be_read_leaves_the_topic_open(clean: Path, text: str) -> None:
    (clean / "rolled-0" / "partition.metadata").write_text(text)

    assert "not known whether the log belongs to this topic" in (refusal(clean, server=SERVER) or "")


def test_a_tiered_topic_is_refused_though_it_is_named(clean: Path) -> None:
    named = settings(rolled={"remote.storage.enable": True})

    assert (refusal(clean, server=SERVER, topic_settings=named) or "").startswith("the topic is tiered")


def test_damaged_metadata_may_lack_the_settings(clean: Path) -> None:
    log = max((clean / METADATA).glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)

    assert "cannot be read to its end" in (refusal(clean, server=SERVER) or "")


def test_the_policy_of_a_topic_is_known_from_the_cluster_the_broker_s_file_or_the_user(clean: Path) -> None:
    def is_known(topic: str, **sources: object) -> bool:
        return KnownTopics(Disk(), [str(clean)], TopicSources(**sources)).has_policy(topic)  # type: ignore[arg-type]

    assert is_known("compacted")
    assert not is_known("rolled")
    assert is_known("rolled", server=SERVER)
    assert is_known("rolled", topic_settings=settings(rolled={"retention.ms": 5}))
    assert not is_known("nowhere", server=SERVER)
    shutil.rmtree(clean / METADATA)
    assert not is_known("compacted", server=SERVER)


def test_settings_are_for_topics_of_the_directories_or_of_the_cluster(clean: Path) -> None:
    def check(*paths: Path, **topics: dict[str, object]) -> None:
        sources = TopicSources(topic_settings=settings(**topics))
        check_settings(Disk(), [str(path) for path in (clean, *paths)], sources)

    check(rolled={}, txn={}, __share_group_state={})
    with pytest.raises(UsageError, match=r"settings of roled, which is not in .*: did you mean rolled\?"):
        check(roled={})
    check(clean / "nowhere", roled={})  # the topic may be in a directory that cannot be read
    shutil.rmtree(clean / "rolled-0")
    check(rolled={})  # the cluster's metadata has it
    shutil.rmtree(clean / METADATA)
    with pytest.raises(UsageError, match="settings of rolled"):
        check(rolled={})
