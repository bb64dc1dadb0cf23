"""A writer's values read as the reader's schema; fastavro writes them, and resolves what it can."""

from __future__ import annotations

import io
import random
from typing import Any

import fastavro
import pytest

from stratalog.errors import SchemaError
from tests.profile import examples
from tests.records.avro.values import (
    as_datum,
    decoded,
    encoded,
    evolved,
    random_schema,
    random_value,
    record,
    written,
)


@pytest.mark.parametrize("seed", range(examples(2000, quick=100)))
def test_an_evolved_schema_reads_what_fastavro_reads(seed: int) -> None:
    rng = random.Random(seed)
    writer = random_schema(rng)
    reader = evolved(rng, writer)
    raw = [encoded(writer, random_value(rng, writer)) for _ in range(7)]

    column, reasons = decoded(writer, reader, raw)

    parsed = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    expected = [fastavro.schemaless_reader(io.BytesIO(each), *parsed) for each in raw]
    assert reasons == [None] * 7
    assert [as_datum(reader, value) for value in column.to_pylist()] == expected


ADDED = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "default", "is_read_as"),
    [
        ("bytes", "\u00ff\u0000", b"\xff\0"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0001\u00ff", b"\1\xff"),
        (["null", "int"], None, None),
        (["int", "null"], 3, 3),
        (["null", "int"], 3, 3),  # as Avro 1.12 allows
        (["int", "string"], "x", {"member0": None, "member1": "x"}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        (
            record(("x", "int"), {"name": "y", "type": "string", "default": "own"}, name="I"),
            {"x": 1},
            {"x": 1, "y": "own"},
        ),
        ({"type": "array", "items": {"type": "map", "values": "long"}}, [{"a": 1}, {}], [[("a", 1)], []]),
        ("double", 5, 5.0),
        ("boolean", False, False),
    ],
    ids=str,
)
def test_a_field_that_the_writer_does_not_have_gets_its_default(
    kind: Any, default: Any, is_read_as: Any
) -> None:
    writer = record(("a", "int"), ("z", "string"))
    reader = record({"name": "new", "type": kind, "default": default}, ("z", "string"), ("a", "int"))

    column, reasons = decoded(writer, reader, [written(writer, {"a": n, "z": "z" * n}) for n in range(3)])

    assert column.to_pylist() == [{"new": is_read_as, "z": "z" * n, "a": n} for n in range(3)]
    assert reasons == [None] * 3


def test_a_decimal_default_is_a_number() -> None:
    reader = record({"name": "price", "type": ADDED, "default": "\u0004\u00e2"})

    column, _ = decoded(record(), reader, [b""])

    assert str(column[0].as_py()["price"]) == "12.50"


def test_a_field_is_found_by_its_name_before_it_is_by_an_alias() -> None:
    writer = record(("old", "int"), ("new", "int"))
    reader = record({"name": "new", "type": "int", "aliases": ["old"]})

    column, _ = decoded(writer, reader, [written(writer, {"old": 1, "new": 2})])

    assert column.to_pylist() == [{"new": 2}]


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (record(("a", "int"), name="x.R"), record(("a", "int"), name="y.R")),
        (record(("a", "int"), name="x.Old"), record(("a", "int"), name="x.New", aliases=["Old"])),
        (record(("a", "int"), name="x.Old"), record(("a", "int"), name="y.New", aliases=["x.Old"])),
    ],
)
def test_records_match_by_the_last_part_of_their_name_or_by_an_alias(writer: Any, reader: Any) -> None:
    assert decoded(writer, reader, [written(writer, {"a": 1})])[0].to_pylist() == [{"a": 1}]


@pytest.mark.parametrize(
    ("writer", "value", "reader", "is_read_as"),
    [
        ("int", 5, ["null", "string", "long"], {"member0": None, "member1": 5}),
        ("int", 5, ["double", "int", "string"], {"member0": None, "member1": 5, "member2": None}),
        ("int", 5, ["string", "double"], {"member0": None, "member1": 5.0}),
        ("string", "x", ["bytes", "string"], {"member0": None, "member1": "x"}),
        ("int", 5, "double", 5.0),
        ("long", 2**53, "double", 2.0**53),
        ("long", 7, "float", 7.0),
        ("int", 2**31 - 1, "float", 2.0**31),
        ("float", 1.5, "double", 1.5),
        ("bytes", b"gr\xc3\xbcn", "string", "grün"),
        ("string", "grün", "bytes", b"gr\xc3\xbcn"),
        (["null", "int"], 5, "long", 5),
        (["null", "int"], 5, ["string", "null", "int"], {"member0": None, "member1": 5}),
        (["null", "int", "string"], "x", ["null", "string"], "x"),
        ("int", 5, {"type": "long", "logicalType": "time-micros"}, 5),
        ({"type": "int", "logicalType": "time-millis"}, 5, "int", 5),
    ],
    ids=str,
)
def test_a_type_becomes_one_that_can_hold_it(writer: Any, value: Any, reader: Any, is_read_as: Any) -> None:
    plain = writer["type"] if isinstance(writer, dict) else writer

    column, reasons = decoded(writer, reader, [written(plain, value)])

    assert column.to_pylist() == [is_read_as]
    assert reasons == [None]


def test_a_symbol_that_the_reader_lacks_is_its_default_or_has_a_reason() -> None:
    writer = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    reader = {"type": "enum", "name": "E", "symbols": ["C", "A", "U"]}
    raw = [written(writer, symbol) for symbol in "ABC"]

    strict, reasons = decoded(writer, reader, raw)
    lenient, none = decoded(writer, {**reader, "default": "U"}, raw)

    assert strict.to_pylist() == ["A", None, "C"]
    assert reasons == [None, "the enum E does not have this symbol in the reader's schema", None]
    assert lenient.to_pylist() == ["A", "U", "C"]
    assert none == [None] * 3


def test_only_values_of_a_branch_that_the_reader_lacks_have_a_reason() -> None:
    writer = record(("a", ["int", "string", record(("x", "int"), name="X")]))
    reader = record(("a", ["null", "long"]))
    raw = [written(writer, {"a": value}) for value in (1, "x", {"x": 1}, 2)]

    column, reasons = decoded(writer, reader, raw)

    assert column.to_pylist() == [{"a": 1}, None, None, {"a": 2}]
    assert reasons[1] == "R.a is string, and the reader's union has only null, long"
    assert reasons[2] == "R.a is record X, and the reader's union has only null, long"


@pytest.mark.parametrize(
    ("writer", "reader", "says"),
    [
        ("string", "int", "the schema is string in the writer's schema, which cannot be read as int"),
        ("long", "int", "cannot be read as int"),
        ("double", "float", "cannot be read as float"),
        ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "is array"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "string"}, "an item of the schema"),
        (record(("a", "int")), record(("a", "int"), name="S"), "is record R in the writer's schema"),
        (record(), record(("a", "int")), "R.a is not in the writer's schema, and has no default"),
        (
            record(),
            record({"name": "a", "type": "int", "default": "x"}),
            "R.a: the default 'x' is not a value of the type int",
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "is fixed F",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "is timestamp-millis in the writer's schema, which cannot be read as timestamp-micros",
        ),
        (ADDED, {**ADDED, "scale": 3}, "is decimal"),
        ("null", ["int", "string"], "and the reader's union has only int, string"),
    ],
    ids=str,
)
def test_schemas_that_do_not_match_are_refused_with_the_place(writer: Any, reader: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        decoded(writer, reader, [])


def test_a_decimal_may_get_more_digits() -> None:
    wider = {**ADDED, "precision": 38}

    column, reasons = decoded(ADDED, wider, [written("bytes", b"\x04\xe2")])
    back, reasons_back = decoded(wider, ADDED, [written("bytes", b"\x04\xe2"), written("bytes", b"\x7f" * 9)])

    assert [str(value) for value in column.to_pylist()] == ["12.50"]
    assert back.to_pylist() == [column[0].as_py(), None]
    assert [*reasons, *reasons_back] == [None, None, "a decimal has more digits than its type"]


def test_a_recursive_type_can_be_passed_over() -> None:
    tree = record(("left", ["null", "Tree"]), ("right", ["null", "Tree"]), ("n", "int"), name="Tree")
    writer = record(("tree", tree), ("id", "int"))
    leaf = {"left": None, "right": None, "n": 1}
    value = {"tree": {"left": {**leaf, "right": leaf}, "right": leaf, "n": 2}, "id": 7}

    column, _ = decoded(writer, record(("id", "long")), [written(writer, value)])

    assert column.to_pylist() == [{"id": 7}]


def nested(levels: int, inner: Any) -> Any:
    """Records with two fields of the type before: small text, many columns."""
    defined = record(("a", inner), ("b", inner if isinstance(inner, str) else inner["name"]), name="L0")
    for level in range(1, levels):
        defined = record(("a", defined), ("b", f"L{level - 1}"), name=f"L{level}")
    return defined


def test_a_small_schema_with_very_many_parts_is_refused_and_does_not_hang() -> None:
    with pytest.raises(SchemaError, match="more than 10,000 columns"):
        decoded(nested(40, "int"), nested(40, "int"), [])
    with pytest.raises(SchemaError, match="more than 10,000 parts"):
        decoded(record(("x", nested(40, "null"))), record(), [])


def test_a_chain_of_very_many_types_is_refused() -> None:
    chain: Any = "int"
    defined = []
    for level in range(500):
        defined.append(record(("next", chain), name=f"C{level}"))
        chain = f"C{level}"

    with pytest.raises(SchemaError, match="more than 64 levels deep"):
        decoded(chain, chain, [], before=defined)
    with pytest.raises(SchemaError, match="more than 64 levels deep"):
        decoded(record(("x", chain)), record(), [], before=defined)
