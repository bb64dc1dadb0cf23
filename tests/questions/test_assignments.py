"""Which member has which partitions, by records as Kafka's coordinator writes them.

tests/kafka/test_questions.py compares that with kafka-consumer-groups.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import stratalog
from stratalog.files.reading import DiskReader
from stratalog.log.new_records import NewRecord
from stratalog.questions.assignments import current_assignments, topics_by_id
from stratalog.questions.choosing import named_partitions
from tests.fixtures.catalog import log_dirs, partitions
from tests.jobs.reading.making import kafka_rows

(CLEAN,) = log_dirs("4.3.1", "clean")
MEMBER = "ZOaWIQfiQ3mP8r7AnJS7kA"  # of the group consumer-protocol, while it had partitions


def test_topics_have_the_ids_of_their_partitions() -> None:
    disk = DiskReader()

    found = topics_by_id(disk, named_partitions(disk, [str(CLEAN)], ["codecs", "headers"]))

    assert sorted(found.values()) == ["codecs", "headers"]
    for topic_id, topic in found.items():
        assert f"topic_id: {topic_id}" in (CLEAN / f"{topic}-0" / "partition.metadata").read_text()


def test_an_unreadable_partition_metadata_of_another_topic_stopped_all_groups(tmp_path: Path) -> None:
    for name in ("codecs-0", "headers-0"):
        shutil.copytree(CLEAN / name, tmp_path / name)
    (tmp_path / "headers-0" / "partition.metadata").unlink()
    (tmp_path / "headers-0" / "partition.metadata").mkdir()
    disk = DiskReader()

    found = topics_by_id(disk, named_partitions(disk, [str(tmp_path)], ()))

    assert list(found.values()) == ["codecs"]


def test_a_member_that_has_left_has_nothing() -> None:
    assert ("consumer-protocol", MEMBER) not in current_assignments([str(CLEAN)], {})


def test_the_partitions_are_those_that_the_coordinator_wrote_last(tmp_path: Path) -> None:
    """The records of the fixture, up to before the member left."""
    (offsets,) = [each for each in partitions("4.3.1", "clean") if each.name == "__consumer_offsets-0"]
    for name in ("codecs-0", "headers-0"):
        shutil.copytree(CLEAN / name, tmp_path / name)
    with stratalog.open_log(tmp_path / "__consumer_offsets-0", create=True) as log:
        for batch, record in kafka_rows(offsets):
            key, value = (
                None if record[each] is None else bytes.fromhex(record[each]) for each in ("key", "value")
            )
            if value is None and key is not None and MEMBER.encode() in key:
                break
            if not batch["isControl"]:
                log.append_many([NewRecord(value, key)])
    disk = DiskReader()
    topics = topics_by_id(disk, named_partitions(disk, [str(tmp_path)], ()))

    found = current_assignments([str(tmp_path)], topics)

    # By the dump, the member's last assignment has one partition of each of the two topics.
    assert set(found["consumer-protocol", MEMBER]) == {"codecs-0", "headers-0"}
    assert current_assignments([str(tmp_path)], {})["consumer-protocol", MEMBER] == ()
