"""Records as Python values, a chunk at a time: every field, as a slow twin reads it."""

from __future__ import annotations

from collections.abc import Iterator

from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from stratalog.files.names import TopicPartition
from stratalog.log.api.consumer_records import ConsumerReader, ConsumerRecord
from stratalog.records.batch import write_crc
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.rows import RowMemory
from stratalog.records.utf8 import decode_text
from tests import naive
from tests.records import golden
from tests.records.strategies import Encoded, logs, plain

ORDERS = TopicPartition("orders", 3)
END = 2**63 - 1


def consumed(data: bytes, start: int = -END, end: int = END) -> list[ConsumerRecord]:
    reader = ConsumerReader(ORDERS, start, end, RowMemory())
    return [record for some in reader.read(data) for record in some]


def by_twin(data: bytes) -> Iterator[ConsumerRecord]:
    """Batch by batch and record by record, from the format's description."""
    for batch in naive.walk(data)[0]:
        is_v2 = batch.magic == 2
        if is_v2 and batch.attributes & 0x20:
            continue
        kind = -1 if batch.magic == 0 else batch.attributes >> 3 & 1
        raw = data[batch.position : batch.position + batch.size]
        for offset, timestamp, key, value, pairs in naive.decode(raw, plain):
            headers = tuple((decode_text(name), content) for name, content in pairs)
            yield ConsumerRecord(
                topic="orders",
                partition=3,
                leader_epoch=batch.partition_leader_epoch if is_v2 else -1,
                offset=offset,
                timestamp=timestamp,
                timestamp_type=kind,
                key=key,
                value=value,
                headers=headers,
                checksum=None,
                serialized_key_size=-1 if key is None else len(key),
                serialized_value_size=-1 if value is None else len(value),
                serialized_header_size=sum(len(n.encode()) + len(v or b"") for n, v in headers)
                if headers
                else -1,
            )


@given(logs())
def test_every_field_is_as_the_twin_reads_it(log: Encoded) -> None:
    found = consumed(log.data)

    assert found == list(by_twin(log.data))
    assert [type(each) for each in found] == [ConsumerRecord] * len(found)


@given(logs(), st.data())
def test_a_range_of_offsets_is_cut_out_exactly(log: Encoded, draw: st.DataObject) -> None:
    everything = list(by_twin(log.data))
    offsets = st.sampled_from([record.offset for record in everything] or [0])
    start, end = draw.draw(offsets), draw.draw(offsets)

    assert consumed(log.data, start, end) == [each for each in everything if start <= each.offset < end]


def test_more_records_than_one_chunk_holds_are_those_that_aiokafka_reads() -> None:
    parts = [
        build_batch(
            [
                Record(
                    offset,
                    1_700_000_000_000 + offset,
                    b"k%d" % offset if offset % 7 else None,
                    b"v" * (offset % 300),
                )
                for offset in range(base, base + 500)
            ],
            BatchOptions(log_append_time=5 if base % 1000 else None, partition_leader_epoch=base // 1500),
        )
        for base in range(0, 6000, 500)
    ]
    records, theirs = MemoryRecords(b"".join(parts)), []
    while records.has_next():
        theirs += [
            (each.offset, each.timestamp, each.timestamp_type, each.key, each.value)
            for each in records.next_batch()
        ]

    ours = consumed(b"".join(parts))

    assert [
        (each.offset, each.timestamp, each.timestamp_type, each.key, each.value) for each in ours
    ] == theirs
    assert [each.leader_epoch for each in ours] == [offset // 1500 for offset in range(6000)]


def test_the_size_of_a_null_was_any_negative_number() -> None:
    batch = bytearray(build_batch([Record(0, 0, None, b""), Record(1, 0, None, b"x")]))
    at = 61 + 4  # after the first record's length, attributes, time and offset
    assert batch[at : at + 2] == b"\x01\x00"  # null, and no bytes
    batch[at : at + 2] = b"\x03\x05"  # -2 and -3
    write_crc(batch, 0, len(batch))

    found = consumed(bytes(batch))

    assert [(each.key, each.value) for each in found] == [(None, None), (None, b"x")]
    assert [each.serialized_key_size for each in found] == [-1, -1]
    assert [each.serialized_value_size for each in found] == [-1, 1]


def test_control_records_are_left_out() -> None:
    data = golden.TWO_RECORDS + golden.COMMIT_MARKER

    assert [record.offset for record in consumed(data)] == [0, 1]


def test_records_outlive_the_reader_and_its_memory() -> None:
    memory = RowMemory()
    first = next(ConsumerReader(ORDERS, 0, END, memory).read(build_batch([Record(7, 1, b"a", b"b")])))
    data = bytearray(build_batch([Record(8, 2, b"c", b"d")]))

    second = next(ConsumerReader(ORDERS, 0, END, memory).read(data))
    data[:] = bytes(len(data))

    assert [(each.offset, each.key, each.value) for each in (*first, *second)] == [
        (7, b"a", b"b"),
        (8, b"c", b"d"),
    ]
