"""The text of Avro schemas: what is a schema, how names are found, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import SchemaError
from stratalog.records.avro.schema import AvroRecord, AvroType, described, named_types, parse_schema
from tests.records.avro.values import ORDER, record


def field_types(schema: Any, *before: Any) -> list[str]:
    found = parse_schema(json.dumps(schema), [json.dumps(each) for each in before])
    assert isinstance(found, AvroRecord)
    return [described(each.type) for each in found.fields]


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("State", True), ("shop.State", True), ("store.State", False), ("state", False)],
)
def test_a_type_is_found_by_its_name_in_its_namespace(name: str, is_found: bool) -> None:
    text = json.dumps(ORDER).replace('["null", "State"]', json.dumps(["null", name]))

    if is_found:
        assert described(parse_schema(text)) == "record shop.Order"
    else:
        with pytest.raises(SchemaError, match=f"Order.before names the Avro type {name!r}, which does not"):
            parse_schema(text)


def test_a_type_without_a_namespace_has_that_of_the_type_around_it() -> None:
    inner = {"type": "fixed", "name": "F", "size": 1}
    other = {"type": "fixed", "name": "other.F", "size": 2}
    bare = {"type": "fixed", "name": "F", "namespace": "", "size": 3}

    schema = record(
        ("a", inner), ("b", other), ("c", bare), ("d", "x.F"), ("e", "F"), name="R", namespace="x"
    )

    assert field_types(schema) == ["fixed x.F", "fixed other.F", "fixed F", "fixed x.F", "fixed x.F"]


def test_types_of_references_are_known() -> None:
    address = record(("street", "string"), name="Address", namespace="shop")

    assert field_types(record(("to", "shop.Address")), address) == ["record shop.Address"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested more than 64 levels"),
        ('{"type": "array", "items": ' * 70 + '"int"' + "}" * 70, "nested more than 64 levels"),
        ('{"type": "fixed", "name": "F", "size": ' + "9" * 5000 + "}", "not JSON"),
        ('{"type": "fixed", "name": "F", "size": 3000000000}', "the size 3000000000"),
        ('{"type": "fixed", "name": "F", "size": -1}', "the size -1"),
        ('"strin"', "names the Avro type 'strin', which does not exist"),
        ('{"name": "x"}', "is not an Avro type"),
        ("null", "is not an Avro type: null"),
        ("{}", "is not an Avro type"),
        ('{"type": 5}', "is not an Avro type"),
        ('{"type": "array"}', "an item of the schema is not an Avro type: null"),
        ('{"type": "record", "name": "R"}', "R has no list of fields"),
        ('{"type": "record", "name": "R", "fields": ["x"]}', "a field of the Avro record R has no name"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x"}]}', "or no type"),
        ('{"type": "record", "name": "a b", "fields": []}', "the name 'a b', which is not a valid name"),
        ('{"type": "record", "fields": []}', "the name None"),
        ('{"type": "record", "name": "R", "namespace": 5, "fields": []}', "the namespace of"),
        ('{"type": "record", "name": "R", "aliases": "S", "fields": []}', "which is not a list of texts"),
        ('{"type": "enum", "name": "E"}', "the symbols of the Avro enum E are null"),
        ('{"type": "enum", "name": "E", "symbols": ["a b"]}', "or one that is not a name"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "has a symbol twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "the default 'B'"),
        ('["int", "int"]', "has int twice"),
        ("[]", "has no types"),
        ('["int", ["null", "string"]]', "a union directly inside a union"),
        (
            '[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}]',
            "the Avro type F is defined twice",
        ),
    ],
)
def test_what_is_not_a_schema_is_refused(text: str, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        parse_schema(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["int", "record", "R", "array", "x.y", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "items", "values", "fields", "symbols", "size", "default"]),
            inner,
        )
    ),
)


@given(JSON)
def test_any_json_is_a_schema_or_refused_in_words(found: Any) -> None:
    try:
        parsed: AvroType | SchemaError = parse_schema(json.dumps(found))
    except SchemaError as error:
        parsed = error

    assert described(parsed) if not isinstance(parsed, SchemaError) else str(parsed)


def test_the_names_that_a_schema_defines_and_needs() -> None:
    schema = record(("a", "shop.Address"), ("b", ["null", "shop.Item", "shop.Other"]), ("c", "R"), name="x.R")

    assert named_types(json.dumps(schema)) == (
        {"x.R"},
        {"shop.Address", "shop.Item", "shop.Other"},
    )
