"""Values with the id of their schema before them: decoded by that schema, or kept with a reason."""

from __future__ import annotations

import io
import json
import random
import re
import resource
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from stratalog.jobs.decoding.framed import NO_FRAME, FramedDecoder
from stratalog.jobs.decoding.store import JSON, PROTOBUF, SchemaStore, SchemaVersion, StoredSchema
from stratalog.records.avro.decode import REASONS
from tests.jobs.decoding.serializing import V1, V2
from tests.profile import examples
from tests.records.avro.values import ORDER, as_datum, record, written

# What a value that was changed at random can be told: in our own words.
OURS = re.compile(
    "|".join(
        [
            re.escape(NO_FRAME),
            r"the schema id -?\d+ is not known",
            rf"schema \d+: ({'|'.join(map(re.escape, REASONS.values()))})",
        ]
    )
)


def store(*schemas: Any, kind: str = "AVRO") -> SchemaStore:
    """Schemas with the ids 1, 2, ..."""
    return SchemaStore(
        {
            SchemaVersion("orders-value", n): StoredSchema(id=n, text=json.dumps(each), kind=kind)
            for n, each in enumerate(schemas, 1)
        }
    )


def decoder(schemas: SchemaStore, reader: int) -> FramedDecoder:
    found = schemas.by_id(reader)
    assert found is not None
    return FramedDecoder(schemas, found, ".")


def framed(number: int, value: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big", signed=True) + value


def decode(made: FramedDecoder, raw: list[bytes | None]) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    values, ids, undecoded = made.decode(pa.array(raw, pa.binary()))
    values.validate(full=True)
    return values.to_pylist(), ids.to_pylist(), undecoded.raw.to_pylist(), undecoded.reasons.to_pylist()


def test_each_value_is_decoded_by_the_schema_of_its_own_id() -> None:
    first = {"id": 1, "amount": 0.5, "note": "n", "old": "o"}
    second = {"id": 2, "amount": 1.5, "comment": "c", "paid": True}
    raw = [framed(1, written(V1, first)), None, framed(2, written(V2, second)), framed(1, written(V1, first))]

    values, ids, undecoded, reasons = decode(decoder(store(V1, V2), 2), raw)

    read = {"id": 1, "amount": 0.5, "comment": "n", "paid": False}
    assert values == [read, None, second, read]
    assert ids == [1, None, 2, 1]
    assert undecoded == reasons == [None] * 4


def test_an_id_that_is_not_known_is_never_decoded_with_another_schema() -> None:
    raw = [framed(number, written("string", "x")) for number in (1, 2, -1, 2**31 - 1)]

    values, ids, undecoded, reasons = decode(decoder(store("string"), 1), raw)

    assert values == ["x", None, None, None]
    assert ids == [1, 2, -1, 2**31 - 1]
    assert undecoded == [None, *raw[1:]]
    assert reasons[1:] == [f"the schema id {number} is not known" for number in ids[1:]]


def test_bytes_without_a_frame_have_that_as_the_reason() -> None:
    raw = [b"", b"\0", b"\0\0\0\0", b"\1\0\0\0\1\2x", b'{"a": 1}', framed(1, b"")]

    values, ids, undecoded, reasons = decode(decoder(store("string"), 1), raw)

    assert values == [None] * 6
    assert ids == [None] * 5 + [1]
    assert undecoded == raw
    assert reasons == [NO_FRAME] * 5 + ["schema 1: the bytes end before the value does"]


def test_a_schema_that_the_reader_cannot_have_is_the_reason_of_its_values() -> None:
    schemas = store("string", "int", record(("a", "no such")))

    values, _, undecoded, reasons = decode(
        decoder(schemas, 1), [framed(number, written("int", 1)) for number in (2, 3)]
    )

    assert values == [None, None]
    assert None not in undecoded
    assert reasons == [
        "schema 2 cannot be converted to the reader schema: the schema is int in the writer's schema, "
        "which cannot be read as string",
        "schema 3 cannot be converted to the reader schema: R.a names the Avro type 'no such', which does "
        "not exist",
    ]


def test_json_is_decoded_as_json() -> None:
    raw = [framed(1, b'{"a": 1}'), framed(1, b"{"), framed(1, b"\xff"), framed(9, b"{}"), None]

    values, ids, undecoded, reasons = decode(decoder(store({}, kind=JSON), 1), raw)

    assert values == ['{"a": 1}', None, None, None, None]
    assert ids == [1, 1, 1, 9, None]
    assert undecoded == [None, raw[1], raw[2], raw[3], None]
    assert reasons == [
        None,
        "schema 1: it is not JSON",
        "schema 1: it is not UTF-8",
        "the schema id 9 is not known",
        None,
    ]


def test_protobuf_stays_bytes_and_that_is_the_reason() -> None:
    raw = [framed(1, b"\0\x08\x01"), None]

    values, ids, undecoded, reasons = decode(decoder(store({}, kind=PROTOBUF), 1), raw)

    assert values == [None, None]
    assert ids == [1, None]
    assert undecoded == raw
    assert reasons == ["schema 1 is Protobuf, whose values stay bytes", None]


def test_types_of_schemas_are_not_mixed() -> None:
    mixed = {
        SchemaVersion("a", n): StoredSchema(id=n, text='"string"', kind=kind)
        for n, kind in enumerate(("AVRO", JSON, "ODD"), 1)
    }
    raw = [framed(number, written("string", "x")) for number in (1, 2, 3)]

    values, _, _, reasons = decode(decoder(SchemaStore(mixed), 1), raw)

    assert values == ["x", None, None]
    assert reasons[1] == "schema 2 is of type JSON, and the reader schema of type AVRO"
    assert reasons[2] == "schema 3 has the type ODD, which is not known"


def test_a_slice_of_a_column_is_decoded_as_it_is() -> None:
    raw = [framed(1, written("string", "x" * n)) for n in range(10)]
    column = pa.array([None, *raw], pa.binary())

    values, ids, _ = decoder(store("string"), 1).decode(column.slice(3, 4))

    assert values.to_pylist() == ["x" * n for n in (2, 3, 4, 5)]
    assert ids.to_pylist() == [1] * 4
    assert decoder(store("string"), 1).decode(column.slice(11))[0].to_pylist() == []


def mutated(rng: random.Random, raw: bytes) -> bytes:
    """The bytes with a few changes: bits, numbers that are as large as they can be, bytes gone or added."""
    changed = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at:at] = rng.randbytes(rng.randint(1, 4))
            case 2:
                del changed[at : at + rng.randint(1, 4)]
            case 3:
                changed[at : at + 1] = rng.choice([b"\xff" * 9 + b"\1", b"\xfe" * 9 + b"\1", b"\x80" * 12])
            case 4:
                del changed[at:]
            case _:
                changed[at : at + 1] = rng.randbytes(1)
    return bytes(changed)


LINES = {
    "type": "array",
    "items": record(("name", "string"), ("counts", {"type": "map", "values": "long"}), name="L"),
}
BASKET = record(("id", "int"), ("lines", LINES), ("extra", ["null", "boolean", "string"]), name="Basket")


def test_values_that_were_changed_at_random_are_decoded_or_kept_with_a_reason_of_ours() -> None:
    rng = random.Random(17)
    value = {"id": 5, "lines": [{"name": "grün", "counts": {"a": 1, "b": 2}}] * 3, "extra": "x"}
    wider = {**BASKET, "fields": [*BASKET["fields"], {"name": "new", "type": "string", "default": "d" * 100}]}
    schemas = store(BASKET, wider)
    raw = framed(1, written(BASKET, value)), framed(2, written(wider, {**value, "new": "n"}))
    made = decoder(schemas, 2)
    decode(made, [*raw])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    decoded = 0

    for _ in range(examples(100, quick=3)):
        many = [mutated(rng, rng.choice(raw)) for _ in range(1000)]
        values, ids, undecoded, reasons = decode(made, list(many))
        for each, value_read, kept, reason in zip(many, values, undecoded, reasons, strict=True):
            if reason is None:
                decoded += 1
                assert kept is None
                assert value_read is not None
            else:
                assert (value_read, kept) == (None, each)
                assert OURS.fullmatch(reason), reason
        assert [number for number in ids if number is None or -(2**31) <= number < 2**31] == ids

    assert decoded > 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 200_000  # kilobytes


def test_what_is_decoded_of_changed_values_is_what_fastavro_decodes() -> None:
    rng = random.Random(18)
    value = {"id": 5, "lines": [{"name": "grün", "counts": {"a": 1, "b": 2}}] * 3, "extra": "x"}
    raw = framed(1, written(BASKET, value))
    many = [mutated(rng, raw) for _ in range(examples(20_000, quick=1000))]

    values, ids, _, reasons = decode(decoder(store(BASKET), 1), list(many))

    parsed = fastavro.parse_schema(BASKET)
    checked = 0
    for each, value_read, number, reason in zip(many, values, ids, reasons, strict=True):
        if reason is None:
            assert number == 1
            found = fastavro.schemaless_reader(io.BytesIO(each[5:]), parsed, None)
            # fastavro keeps the last of the values of a key.
            assert as_datum(BASKET, value_read) == found
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_batch_has_its_columns(count: int) -> None:
    values, ids, undecoded = decoder(store(ORDER), 1).decode(pa.nulls(count, pa.binary()))

    assert [len(each) for each in (values, ids, *undecoded)] == [count] * 4
    assert ids.type == pa.int32()
