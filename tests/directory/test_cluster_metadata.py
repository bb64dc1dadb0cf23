"""Topics, settings and broker epochs of a real cluster, compared with what Kafka's tool printed of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from stratalog.directory.cluster_metadata import (
    METADATA_DIRECTORY,
    ClusterMetadata,
    read_cluster_metadata,
)
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.partition_metadata import topic_id_from_text, topic_id_to_text
from stratalog.records.batch import set_base_offset
from stratalog.records.build import Record, build_batch
from stratalog.records.internal import InternalRecord, decode_internal
from tests.fixtures.catalog import log_dirs

STATES = ["clean", "killed"]
ROLLED = "CVmmc5E3Svq-PtfZ062cfg"


def logs(state: str) -> Path:
    (found,) = log_dirs("4.3.1", state)
    return found


def metadata_of(state: str) -> ClusterMetadata:
    return read_cluster_metadata(Disk(), logs(state) / METADATA_DIRECTORY)


def printed(state: str) -> list[dict[str, Any]]:
    """All records of the log, in their order, by the dump tool; it goes back to offset 0, so it has all."""
    text = (logs(state).parent / "dump" / f"{METADATA_DIRECTORY}.decoded.txt").read_text("utf-8")
    log = text.partition("Dumping __cluster_metadata-0/00000000000000000050")[0]
    return [json.loads(found) for found in re.findall(r"payload: (\{.*\})$", log, re.MULTILINE)]


def printed_of(state: str, kind: str) -> list[dict[str, Any]]:
    return [record["data"] for record in printed(state) if record["type"] == kind]


@pytest.mark.parametrize("state", STATES)
def test_the_topics_and_their_ids_are_those_that_the_tool_prints(state: str) -> None:
    expected = {record["topicId"]: record["name"] for record in printed_of(state, "TOPIC_RECORD")}
    for removed in printed_of(state, "REMOVE_TOPIC_RECORD"):
        del expected[removed["topicId"]]

    found = metadata_of(state)

    assert {topic_id_to_text(topic.topic_id): name for name, topic in found.topics.items()} == expected
    assert found.problem is None
    assert "short-lived" not in found.topics


@pytest.mark.parametrize("state", STATES)
def test_the_settings_of_topics_are_those_that_the_tool_prints(state: str) -> None:
    expected: dict[str, dict[str, str]] = {}
    for record in printed_of(state, "CONFIG_RECORD"):
        if record["resourceType"] == 2:
            expected.setdefault(record["resourceName"], {})[record["name"]] = record["value"]
    expected = {
        topic: {name: value for name, value in settings.items() if value is not None}
        for topic, settings in expected.items()
    }

    del expected["short-lived"]  # they went with their topic

    found = metadata_of(state)

    assert found.topic_configs == {topic: settings for topic, settings in expected.items() if settings}
    assert found.topic_configs["rolled"]["internal.segment.bytes"] == "1500"
    assert found.broker_configs[""] == {"min.insync.replicas": "1"}


@pytest.mark.parametrize("state", STATES)
def test_the_broker_epoch_is_that_of_the_last_registration(state: str) -> None:
    epochs = [record["brokerEpoch"] for record in printed_of(state, "REGISTER_BROKER_RECORD")]

    assert metadata_of(state).broker_epochs == {1: epochs[-1]}


def test_the_epoch_of_a_clean_stop_is_the_one_in_its_marker() -> None:
    marker = json.loads((logs("clean") / ".kafka_cleanshutdown").read_text("utf-8"))

    assert metadata_of("clean").broker_epochs == {1: marker["brokerEpoch"]}


def test_the_ids_are_those_in_the_partitions_own_files() -> None:
    found = metadata_of("clean")

    for name, topic in found.topics.items():
        text = (logs("clean") / f"{name}-0" / "partition.metadata").read_text("utf-8")
        assert text.endswith(topic_id_to_text(topic.topic_id))
        assert topic.replicas == {0: (1,)}


def test_the_log_alone_says_the_same_as_a_snapshot_and_what_follows_it() -> None:
    directory = logs("killed") / METADATA_DIRECTORY
    files = {f"/m/{path.name}": path.read_bytes() for path in directory.iterdir()}
    without = {path: data for path, data in files.items() if not path.endswith(".checkpoint")}

    assert len(without) < len(files)
    assert read_cluster_metadata(SimulatedDisk.of(without), "/m") == metadata_of("killed")


def test_a_snapshot_alone_is_the_cluster_as_it_was_then() -> None:
    directory = logs("killed") / METADATA_DIRECTORY
    (snapshot,) = directory.glob("*.checkpoint")

    found = read_cluster_metadata(SimulatedDisk.of({f"/m/{snapshot.name}": snapshot.read_bytes()}), "/m")

    assert (found.end_offset, found.broker_epochs) == (50, {1: 11})
    assert "blocks" not in found.topics
    assert found.topics["rolled"].topic_id == topic_id_from_text(ROLLED)


@pytest.mark.parametrize("state", STATES)
def test_records_that_say_nothing_took_most_of_the_time(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet cluster has two of them a second. The dump tool says how many there are after the snapshot."""
    decoded: list[InternalRecord] = []
    said = [line["type"] for line in printed(state)]
    assert "NO_OP_RECORD" in said

    def noting(topic: str, key: bytes | None, value: bytes | None) -> InternalRecord:
        decoded.append(decode_internal(topic, key, value))
        return decoded[-1]

    monkeypatch.setattr("stratalog.directory.cluster_metadata.decode_internal", noting)

    found, quickly = metadata_of(state), [record.kind for record in decoded]
    decoded.clear()
    monkeypatch.setattr("stratalog.directory.cluster_metadata._NO_OP", b"")
    everything, slowly = metadata_of(state), [record.kind for record in decoded]

    assert found == everything
    assert "NO_OP_RECORD" in slowly
    assert quickly == [kind for kind in slowly if kind != "NO_OP_RECORD"]


def test_a_torn_last_batch_is_not_there_yet() -> None:
    data = (logs("killed") / METADATA_DIRECTORY / f"{0:020d}.log").read_bytes()

    found = read_cluster_metadata(SimulatedDisk.of({f"/m/{0:020d}.log": data[:-1]}), "/m")

    assert found.problem is None
    assert found.end_offset < metadata_of("killed").end_offset


def test_damage_is_told_and_what_is_before_it_counts() -> None:
    data = bytearray((logs("killed") / METADATA_DIRECTORY / f"{0:020d}.log").read_bytes())
    data[12_519 + 100] ^= 1  # inside the batch at byte 12519, which creates the topic `blocks`

    found = read_cluster_metadata(SimulatedDisk.of({f"/m/{0:020d}.log": bytes(data)}), "/m")

    assert found.problem is not None
    assert "at byte 12519" in found.problem
    assert (found.end_offset, "blocks" in found.topics, "rolled" in found.topics) == (172, False, True)


def framed(*records: tuple[int, str], base_offset: int = 0) -> bytes:
    """Metadata records of one batch: the type, and the rest of the message in hex (version 0)."""
    frames = [b"\x01" + bytes([kind, 0]) + bytes.fromhex(rest) for kind, rest in records]
    batch = bytearray(build_batch([Record(at, 0, None, frame) for at, frame in enumerate(frames)]))
    set_base_offset(batch, base_offset)
    return bytes(batch)


TOPIC_A = (2, "0261" + "00" * 15 + "07" + "00")  # TOPIC_RECORD: "a", an id, no tags
BEGIN, END, ABORT = (23, "00"), (24, "00"), (25, "00")


@pytest.mark.parametrize(
    ("records", "topics"),
    [
        ([TOPIC_A], ["a"]),
        ([BEGIN, TOPIC_A, END], ["a"]),
        ([BEGIN, TOPIC_A], []),
        ([BEGIN, TOPIC_A, ABORT], []),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["one batch", "a batch each"])
def test_records_of_a_transaction_count_when_it_has_ended(
    records: list[tuple[int, str]], topics: list[str], apart: bool
) -> None:
    """In a batch each, the end of a transaction is as long as a NO_OP_RECORD."""
    batches = [framed(record, base_offset=at) for at, record in enumerate(records)]
    disk = SimulatedDisk.of({f"/m/{0:020d}.log": b"".join(batches) if apart else framed(*records)})

    found = read_cluster_metadata(disk, "/m")

    assert found.problem is None
    assert list(found.topics) == topics


def test_a_replica_is_stray_when_the_cluster_does_not_know_it_here() -> None:
    metadata = metadata_of("clean")
    rolled, known = TopicPartition("rolled", 0), topic_id_from_text(ROLLED)

    assert metadata.stray_reason(rolled, known, 1) is None
    assert metadata.stray_reason(rolled, known, 2) == "node 2 is not among its replicas"
    assert metadata.stray_reason(rolled, None, 1) == "its topic's id is not known"
    assert metadata.stray_reason(TopicPartition("rolled", 9), known, 1) == "its topic has no such partition"
    assert ClusterMetadata().stray_reason(rolled, known, 1) == "no topic of the cluster has its id"


def test_a_topic_with_another_id_was_said_to_be_missing() -> None:
    reason = metadata_of("clean").stray_reason(TopicPartition("rolled", 0), UUID(int=7), 1)

    assert reason == f"no topic of the cluster has its id: rolled has {ROLLED}"
