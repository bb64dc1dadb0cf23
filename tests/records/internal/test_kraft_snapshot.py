"""The files of Kafka's own tool are compared byte by byte in tests/kafka/test_format.py."""

from __future__ import annotations

from itertools import count

import pytest

from stratalog.records.internal import decode_control, decode_internal, encode_metadata
from stratalog.records.internal.kraft_snapshot import build_kraft_snapshot, voter
from stratalog.records.internal_topics import CLUSTER_METADATA
from stratalog.records.reader import RecordBatch, read_batches


def feature(level: int) -> bytes:
    return encode_metadata("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": level})


def kinds_of(batch: RecordBatch) -> list[str]:
    if batch.is_control:
        return [decode_control(record.key, record.value).kind for record in batch]
    return [decode_internal(CLUSTER_METADATA, record.key, record.value).kind for record in batch]


def test_a_snapshot_is_a_header_records_and_a_footer() -> None:
    data = build_kraft_snapshot([feature(30)], epoch=4, last_timestamp=7, clock=lambda: 9)

    batches = [*read_batches(data)]
    assert [kinds_of(batch) for batch in batches] == [
        ["SNAPSHOT_HEADER"],
        ["FEATURE_LEVEL_RECORD"],
        ["SNAPSHOT_FOOTER"],
    ]
    assert [batch.facts.base_offset for batch in batches] == [0, 1, 2]
    assert {batch.facts.partition_leader_epoch for batch in batches} == {4}
    assert {batch.facts.max_timestamp for batch in batches} == {9}
    (header,) = batches[0]
    assert decode_control(header.key, header.value).value == {"version": 0, "lastContainedLogTimestamp": 7}


def test_voters_follow_the_header() -> None:
    own = voter(3, "s38DPPefRHu4CKwEjdBcXA", [("CONTROLLER", "localhost", 9093), ("OTHER", "x", 1)])
    data = build_kraft_snapshot([], epoch=0, last_timestamp=0, clock=lambda: 0, voters=[own])

    first, footer = read_batches(data)
    assert kinds_of(first) == ["SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS"]
    assert footer.facts.base_offset == 3
    _, version, voters = (decode_control(record.key, record.value).value for record in first)
    assert version == {"version": 0, "kRaftVersion": 1}
    assert voters == {"version": 0, "voters": [own]}


@pytest.mark.parametrize("number", [0, 1, 1024, 1025, 3000])
def test_many_records_are_several_batches(number: int) -> None:
    values = [feature(level) for level in range(number)]
    times = count()
    data = build_kraft_snapshot(values, epoch=0, last_timestamp=0, clock=times.__next__)

    batches = [batch for batch in read_batches(data) if not batch.is_control]
    assert [record.value for batch in batches for record in batch] == values
    assert [record.offset for batch in batches for record in batch] == [*range(1, number + 1)]
    assert all(batch.facts.records_count <= 1024 for batch in batches)
    assert next(times) == len(batches) + 2, "each batch has the time at which it was made"
