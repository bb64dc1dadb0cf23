"""The records layer against Kafka's own record classes, in both directions, hundreds of cases in one JVM."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stratalog.errors import CorruptRecordError, InvalidBatchError
from stratalog.records.batch import (
    BatchHeader,
    TimestampType,
    set_last_offset,
    set_max_timestamp,
    set_partition_leader_epoch,
    write_crc,
)
from stratalog.records.build import BatchOptions, Record, build_batch, encode_batch
from stratalog.records.compression import Codec, compress
from stratalog.records.control import ControlType, EndTxnMarker, build_control_key
from tests import naive, profile
from tests.kafka.oracle import OracleError, RecordsOracle
from tests.records import golden
from tests.records.described import described, rows_of_columns, rows_one_by_one
from tests.records.strategies import Encoded, damaged, legacy_sets, records, v2_batches

Json = dict[str, Any]
many = settings(max_examples=profile.examples(1000, quick=20))
some = settings(max_examples=profile.examples(400, quick=10))

producers = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "producer_id": st.integers(0, 2**63 - 1),
            "producer_epoch": st.integers(0, 2**15 - 1),
            "base_sequence": st.integers(0, 2**31 - 1),
            "is_transactional": st.booleans(),
        }
    ),
)
options = st.builds(
    lambda producer, epoch, time, horizon: BatchOptions(
        **producer, partition_leader_epoch=epoch, log_append_time=time, delete_horizon_ms=horizon
    ),
    producers,
    st.integers(-1, 2**31 - 1),
    st.one_of(st.none(), st.integers(0, 2**42)),
    st.one_of(st.none(), st.integers(0, 2**42)),
)
TIMESTAMP_TYPE = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


def json_of(record: Record) -> Json:
    """A record as the oracle takes it."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[key, None if value is None else value.hex()] for key, value in record.headers],
    }


def built_by_kafka(
    oracle: RecordsOracle, made: list[Record], given_options: BatchOptions, codec: str
) -> bytes:
    batch: Json = {
        "codec": codec,
        "baseOffset": made[0].offset,
        "producerId": given_options.producer_id,
        "producerEpoch": given_options.producer_epoch,
        "baseSequence": given_options.base_sequence,
        "partitionLeaderEpoch": given_options.partition_leader_epoch,
        "isTransactional": given_options.is_transactional,
        "timestampType": TIMESTAMP_TYPE[given_options.timestamp_type],
    }
    if given_options.log_append_time is not None:
        batch["logAppendTime"] = given_options.log_append_time
    if given_options.delete_horizon_ms is not None:
        batch["deleteHorizonMs"] = given_options.delete_horizon_ms
    return oracle.build([json_of(record) for record in made], **batch)


def seen_by_us(data: bytes) -> list[Json]:
    """The batches as both readers see them, which must be the same."""
    one_by_one = list(described(data, rows_one_by_one))
    assert list(described(data, rows_of_columns)) == one_by_one
    return one_by_one


@many
@given(records(), options)
def test_a_batch_without_a_codec_is_kafkas_byte_for_byte(
    oracle: RecordsOracle, made: list[Record], given_options: BatchOptions
) -> None:
    assert build_batch(made, given_options) == built_by_kafka(oracle, made, given_options, "none")


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@some
@given(made=records(), given_options=options)
def test_kafka_reads_in_our_compressed_batch_what_it_reads_in_its_own(
    oracle: RecordsOracle, codec: Codec, made: list[Record], given_options: BatchOptions
) -> None:
    changed = {name: getattr(given_options, name) for name in BatchOptions.__dataclass_fields__}
    ours = build_batch(made, BatchOptions(**changed | {"codec": codec}))
    theirs = built_by_kafka(oracle, made, given_options, codec.kafka_name)

    depends_on_the_bytes = {"size": 0, "crc": 0}
    assert [batch | depends_on_the_bytes for batch in oracle.decode(ours)] == [
        batch | depends_on_the_bytes for batch in oracle.decode(theirs)
    ]
    assert all(batch["valid"] for batch in oracle.decode(ours))


@pytest.mark.parametrize("codec", [codec.kafka_name for codec in Codec])
@some
@given(made=records(), given_options=options)
def test_what_kafka_builds_both_readers_read_as_kafka_does(
    oracle: RecordsOracle, codec: str, made: list[Record], given_options: BatchOptions
) -> None:
    made = [record._replace(timestamp=min(record.timestamp, 2**52)) for record in made]  # within Arrow's
    data = built_by_kafka(oracle, made, given_options, codec)

    assert seen_by_us(data) == oracle.decode(data)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("append_time", [None, 77])
@some
@given(made=records())
def test_message_sets_of_kafka_are_read_as_kafka_reads_them(
    oracle: RecordsOracle, magic: int, codec: str, append_time: int | None, made: list[Record]
) -> None:
    made = [record._replace(headers=(), timestamp=min(record.timestamp, 2**52)) for record in made]
    batch: Json = {"magic": magic, "codec": codec, "baseOffset": made[0].offset}
    if magic == 1 and append_time is not None:
        batch |= {"timestampType": "LogAppendTime", "logAppendTime": append_time}
    data = oracle.build([json_of(record) for record in made], **batch)

    assert seen_by_us(data) == oracle.decode(data)


@some
@given(legacy_sets())
def test_the_twins_message_sets_are_what_kafka_takes_them_for(oracle: RecordsOracle, made: Encoded) -> None:
    found = [record for batch in oracle.decode(made.data) for record in batch["records"]]

    assert [(record["offset"], record["timestamp"], record["key"], record["value"]) for record in found] == [
        (record["offset"], record["timestamp"], record["key"], record["value"])
        for record in map(json_of, made.records)
    ]


@some
@given(v2_batches())
def test_the_twins_batches_are_what_kafka_takes_them_for(oracle: RecordsOracle, made: Encoded) -> None:
    (batch,) = oracle.decode(made.data)

    assert batch["valid"]
    assert [
        {name: record[name] for name in ("offset", "timestamp", "key", "value", "headers")}
        for record in batch["records"]
    ] == [json_of(record) for record in made.records]


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
@some
@given(
    offset=st.integers(0, 2**62),
    timestamp=st.integers(0, 2**42),
    coordinator_epoch=st.integers(-(2**31), 2**31 - 1),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
)
def test_our_markers_are_kafkas_byte_for_byte(
    oracle: RecordsOracle,
    control_type: ControlType,
    offset: int,
    timestamp: int,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
) -> None:
    marker = EndTxnMarker(control_type, coordinator_epoch)
    ours = build_batch(
        [Record(offset, timestamp, marker.key_bytes(), marker.value_bytes())],
        BatchOptions(
            producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
        ),
    )

    theirs = oracle.build(
        [{"timestamp": timestamp, "controlType": control_type.name, "coordinatorEpoch": coordinator_epoch}],
        baseOffset=offset,
        producerId=producer_id,
        producerEpoch=producer_epoch,
        isTransactional=True,
        isControl=True,
    )
    assert ours == theirs
    assert seen_by_us(theirs) == oracle.decode(theirs)


@pytest.mark.parametrize("control_type", [kind for kind in ControlType if kind > ControlType.COMMIT])
def test_our_other_control_batches_are_kafkas_byte_for_byte(
    oracle: RecordsOracle, control_type: ControlType
) -> None:
    ours = build_batch(
        [Record(9, 1000, build_control_key(control_type), b"\0\0\0\0")], BatchOptions(is_control=True)
    )

    theirs = oracle.build(
        [{"timestamp": 1000, "controlType": control_type.name, "value": "00000000"}],
        baseOffset=9,
        isControl=True,
    )
    assert ours == theirs
    assert seen_by_us(theirs) == oracle.decode(theirs)


@many
@given(
    made=v2_batches(),
    last_offset=st.integers(2**21, 2**62),
    leader_epoch=st.integers(-1, 2**31 - 1),
    timestamp_type=st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    max_timestamp=st.integers(-1, 2**62),
)
def test_fields_are_set_in_place_as_kafka_sets_them(
    oracle: RecordsOracle,
    made: Encoded,
    last_offset: int,
    leader_epoch: int,
    timestamp_type: TimestampType,
    max_timestamp: int,
) -> None:
    batch = bytearray(made.data)
    set_last_offset(batch, last_offset)
    set_max_timestamp(batch, timestamp_type, max_timestamp)
    set_partition_leader_epoch(batch, leader_epoch)

    assert batch == oracle.set_fields(
        made.data,
        lastOffset=last_offset,
        maxTimestamp=max_timestamp,
        timestampType=TIMESTAMP_TYPE[timestamp_type],
        partitionLeaderEpoch=leader_epoch,
    )


def test_setting_a_time_that_is_there_mends_a_wrong_crc_no_more_than_kafka_does(
    oracle: RecordsOracle,
) -> None:
    broken = bytearray(golden.TWO_RECORDS)
    broken[17] ^= 0xFF
    theirs = oracle.set_fields(bytes(broken), maxTimestamp=283843, timestampType="CreateTime")

    set_max_timestamp(broken, TimestampType.CREATE_TIME, 283843)

    assert broken == theirs


@some
@given(
    offset=st.integers(0, 2**62),
    delta=st.integers(0, 2**31 - 1),
    fields=st.tuples(
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 2**15 - 1),
        st.integers(-1, 2**31 - 1),
        st.integers(-1, 2**62),
    ),
)
def test_the_empty_batch_of_compaction_is_kafkas(
    oracle: RecordsOracle, offset: int, delta: int, fields: tuple[int, int, int, int]
) -> None:
    producer_id, producer_epoch, base_sequence, max_timestamp = fields
    header = BatchHeader.unpack(golden.EMPTY_BATCH)._replace(
        base_offset=offset,
        last_offset_delta=delta,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        max_timestamp=max_timestamp,
    )

    assert encode_batch(header, []) == oracle.empty_batch(
        baseOffset=offset,
        lastOffset=offset + delta,
        producerId=producer_id,
        producerEpoch=producer_epoch,
        baseSequence=base_sequence,
        maxTimestamp=max_timestamp,
        partitionLeaderEpoch=3,
    )


@pytest.mark.parametrize(
    "made",
    [
        [Record(5), Record(4)],
        [Record(5), Record(5)],
        [Record(0, -2)],
        [Record(0), Record(2**31)],
    ],
    ids=["descending", "equal", "negative time", "too wide"],
)
def test_what_our_builder_refuses_kafkas_refuses(oracle: RecordsOracle, made: list[Record]) -> None:
    with pytest.raises(InvalidBatchError):
        build_batch(made)
    with pytest.raises(OracleError, match="IllegalArgumentException"):
        built_by_kafka(oracle, made, BatchOptions(), "none")


def verdict(data: bytes) -> list[Json] | None:
    """What both readers see, or None where they refuse; they must agree on that too."""
    answers: list[list[Json] | None] = []
    for read in (rows_one_by_one, rows_of_columns):
        try:
            answers.append(list(described(data, read)))
        except CorruptRecordError:
            answers.append(None)
    assert answers[0] == answers[1]
    return answers[0]


def kafkas_verdict(oracle: RecordsOracle, data: bytes) -> list[Json] | None:
    batches = oracle.decode_each(data)
    return None if any("error" in batch for batch in batches) else batches


@many
@given(v2_batches(codec=Codec.NONE), st.data())
def test_damaged_records_under_a_good_crc_get_kafkas_verdict(
    oracle: RecordsOracle, made: Encoded, draw: st.DataObject
) -> None:
    section = draw.draw(damaged(made.data[61:]))
    data = bytearray(made.data[:8] + struct.pack(">i", 49 + len(section)) + made.data[12:61] + section)
    data[27:43] = struct.pack(">qq", 1000, 2000)  # so that few timestamps pass what Arrow can hold
    count = draw.draw(st.sampled_from([*[len(made.records)] * 5, 0, 1, -1, 2**31 - 1]))
    data[57:61] = struct.pack(">i", count)
    write_crc(data, 0, len(data))
    expected = kafkas_verdict(oracle, bytes(data))
    if expected is not None and any(abs(r["timestamp"]) > 2**52 for b in expected for r in b["records"]):
        return

    found = verdict(bytes(data))
    for batch in [*(expected or []), *(found or [])]:
        for record in batch["records"]:
            # Kafka's sum overflows for an offset before the first, which only damage makes.
            if record["offset"] < batch["baseOffset"]:
                record.pop("sequence")

    assert found == expected


@pytest.mark.parametrize("wrapper", [0, 1])
@pytest.mark.parametrize("magic", [2, 3, 127, 128, 255])
def test_a_message_with_an_unknown_magic_in_a_wrapper_is_read_as_kafka_reads_it(
    oracle: RecordsOracle, wrapper: int, magic: int
) -> None:
    inner = bytearray(naive.encode_message(naive.Record(0, 8, b"k", b"v"), magic=1))
    inner[16] = magic
    outer = naive.Record(0, 5, None, compress(Codec.GZIP, bytes(inner), magic=wrapper))
    data = naive.encode_message(outer, magic=wrapper, attributes=Codec.GZIP)

    found, expected = verdict(data), kafkas_verdict(oracle, data)

    assert found is not None
    assert expected is not None
    for record in [*found[0]["records"], *expected[0]["records"]]:
        record.pop("valid")  # of the inner checksum, which readers leave unread as Kafka's do
    assert found == expected


@many
@given(legacy_sets(), st.data())
def test_damaged_messages_in_a_wrapper_get_kafkas_verdict(
    oracle: RecordsOracle, made: Encoded, draw: st.DataObject
) -> None:
    magic = draw.draw(st.sampled_from([0, 1]))
    bare = [naive.Record(i, min(r.timestamp, 2**52), r.key, r.value) for i, r in enumerate(made.records)]
    inner = b"".join(naive.encode_message(record, magic=magic) for record in bare)
    inner = draw.draw(damaged(inner))
    offset = draw.draw(st.sampled_from([0, len(bare) - 1, len(bare) + 100]))
    outer = naive.Record(offset, 5, None, compress(Codec.GZIP, inner, magic=magic))
    data = naive.encode_message(outer, magic=magic, attributes=Codec.GZIP)
    expected = kafkas_verdict(oracle, data)
    if expected is not None and any(abs(r["timestamp"]) > 2**52 for b in expected for r in b["records"]):
        return
    found = verdict(data)
    for batch in [*(expected or []), *(found or [])]:
        for record in batch["records"]:
            record.pop("valid")  # of an inner checksum, which readers leave unread as Kafka's do

    assert found == expected


# Bytes that begin, break off and forbid characters of every length; plain noise would seldom do so.
odd_bytes = st.sampled_from(
    [b"\xed\xa0\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\xa6", b"\xf4\x90", b"\xc0\x80", b"a"]
)


@many
@example(b"\xed\xa0\x80")
@example(b"\xed\xa0")
@example(b"\xed\xbf\xe2\x82\xed\xa0\x80")
@given(st.lists(st.one_of(odd_bytes, st.binary(max_size=3)), max_size=5).map(b"".join))
def test_a_header_key_of_any_bytes_is_the_text_that_kafka_takes_it_for(
    oracle: RecordsOracle, key: bytes
) -> None:
    data = naive.encode_batch([naive.Record(0, 0, None, b"v", ((key, b"x"), (b"plain", None)))])

    assert seen_by_us(data) == oracle.decode(data)
