"""Avro schemas and values: written by fastavro, generated from a seed, and what they are in Arrow."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from stratalog.records.avro.decode import AvroDecoder
from stratalog.records.avro.schema import parse_schema
from stratalog.records.kernels.avro import OK
from stratalog.records.kernels.memory import byte_array

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "made", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "due", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tag", "type": {"type": "fixed", "name": "Tag", "size": 3}},
        {"name": "place", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# Not a float for an int: fastavro gives it more digits than a float has.
WIDER = {"int": ["long", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"]}
NUMBERS = ["int", "long", "float", "double"]
DEFAULTS = {"null": None, "boolean": True, "int": -7, "long": 1 << 40, "float": 0.5, "double": -2.25}


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record; a field is (name, type), or the whole object."""
    made = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def written(schema: Any, value: object) -> bytes:
    """A value in Avro's binary form."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def decoded(
    writer: Any, reader: Any, values: Sequence[bytes | None], before: Sequence[Any] = ()
) -> tuple[pa.Array, list[str | None]]:
    """Values of one writer's schema as the reader's, and the reason of each that could not be read."""
    references = [json.dumps(each) for each in before]
    decoder = AvroDecoder(parse_schema(json.dumps(reader), references))
    root = decoder.root_of(parse_schema(json.dumps(writer), references))
    raw = [value or b"" for value in values]
    ends = np.cumsum([len(each) for each in raw], dtype=np.int64)
    starts = ends - np.array([len(each) for each in raw], np.int64)
    rows = np.stack([starts, ends, np.full(len(raw), root, np.int64)], axis=1)
    codes = np.array([OK if value is not None else -1 for value in values], np.int32)
    column = decoder.decode(byte_array(b"".join(raw) or b"\0"), rows, codes)
    column.validate(full=True)
    assert column.type == decoder.type
    return column, [None if code in (OK, -1) else decoder.reason(code) for code in codes.tolist()]


def random_schema(rng: random.Random, depth: int = 3, counter: list[int] | None = None) -> Any:
    """A schema of any kind of type, with names that are not used twice."""
    counter = [0] if counter is None else counter
    counter[0] += 1
    name = f"T{counter[0]}"
    kinds = [*PRIMITIVES, "enum", "fixed"] + ["record", "record", "array", "map", "union"] * (depth > 0)
    match rng.choice(kinds):
        case "enum":
            symbols = ["A", "B", "C"][: rng.randint(1, 3)]
            return {"type": "enum", "name": name, "symbols": symbols}
        case "fixed":
            return {"type": "fixed", "name": name, "size": rng.randint(0, 20)}
        case "record":
            fields = [(f"f{n}", random_schema(rng, depth - 1, counter)) for n in range(rng.randint(0, 5))]
            return record(*fields, name=name)
        case "array":
            return {"type": "array", "items": random_schema(rng, depth - 1, counter)}
        case "map":
            return {"type": "map", "values": random_schema(rng, depth - 1, counter)}
        case "union":
            return random_union(rng, depth, counter)
        case primitive:
            return primitive


def random_union(rng: random.Random, depth: int, counter: list[int]) -> list[Any]:
    branches: dict[str, Any] = {"null": "null"} if rng.random() < 0.7 else {}
    for _ in range(rng.randint(1, 3)):
        branch = random_schema(rng, depth - 1, counter)
        if not isinstance(branch, list):
            is_named = isinstance(branch, dict) and "name" in branch
            kind = branch if isinstance(branch, str) else branch["name" if is_named else "type"]
            branches.setdefault(kind, branch)
    # fastavro reads text as bytes, and a number as a wider one, if that is first in a union; Java does not.
    if "string" in branches:
        branches.pop("bytes", None)
    found = list(branches.values()) or ["null"]
    rng.shuffle(found)
    return sorted(found, key=lambda each: NUMBERS.index(each) if each in NUMBERS else 0)


def random_value(rng: random.Random, schema: Any) -> Any:
    """A value for fastavro; that of a union is (number of the branch, value)."""
    if isinstance(schema, list):
        number = rng.randrange(len(schema))
        return number, random_value(rng, schema[number])
    match schema if isinstance(schema, str) else schema["type"]:
        case "boolean":
            return rng.random() < 0.5
        case "int":
            return rng.choice([0, -1, 2**31 - 1, -(2**31), rng.randint(-1000, 1000)])
        case "long":
            return rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randint(-(10**12), 10**12)])
        case "float":
            return rng.choice([0.0, -1.5, float("inf"), 2.0**100])
        case "double":
            return rng.choice([0.0, -1.25, float("-inf"), rng.random()])
        case "bytes":
            return rng.randbytes(rng.choice([0, 1, 7, 40]))
        case "string":
            return rng.choice(["", "a", "grün", "😀" * 5, "x" * 40])
        case "fixed":
            return rng.randbytes(schema["size"])
        case "enum":
            return rng.choice(schema["symbols"])
        case "array":
            return [random_value(rng, schema["items"]) for _ in range(rng.choice([0, 1, 5]))]
        case "map":
            return {f"k{n}": random_value(rng, schema["values"]) for n in range(rng.choice([0, 1, 4]))}
        case "record":
            return {each["name"]: random_value(rng, each["type"]) for each in schema["fields"]}
    return None


def encoded(schema: Any, value: Any) -> bytes:
    """A value of `random_value` in Avro's binary form; each part without a union is written by fastavro."""
    if isinstance(schema, list):
        number, inner = value
        return written("long", number) + encoded(schema[number], inner)
    match schema if isinstance(schema, str) else schema["type"]:
        case "array":
            return blocks([encoded(schema["items"], each) for each in value])
        case "map":
            return blocks(
                [written("string", key) + encoded(schema["values"], each) for key, each in value.items()]
            )
        case "record":
            return b"".join(encoded(each["type"], value[each["name"]]) for each in schema["fields"])
    return written(schema, value)


def blocks(items: list[bytes]) -> bytes:
    """Items in blocks of two: the first with its size in bytes, which Avro allows too."""
    made = b""
    for start in range(0, len(items), 2):
        part = items[start : start + 2]
        if start == 0:
            made += written("long", -len(part)) + written("long", sum(map(len, part))) + b"".join(part)
        else:
            made += written("long", len(part)) + b"".join(part)
    return made + written("long", 0)


def in_arrow(schema: Any, value: Any) -> Any:
    """What a value of `random_value` is in Python's form of an Arrow column."""
    if isinstance(schema, list):
        number, inner = value
        if schema[number] == "null":
            return None
        real = [each for each in schema if each != "null"]
        names = {each for each in real if isinstance(each, str)}
        if len(real) == 1 or (len(names) == len(real) and names in ({"int", "long"}, {"float", "double"})):
            return in_arrow(schema[number], inner)
        chosen = real.index(schema[number])
        inner = in_arrow(schema[number], inner)
        return {f"member{n}": inner if n == chosen else None for n in range(len(real))}
    match schema if isinstance(schema, str) else schema["type"]:
        case "array":
            return [in_arrow(schema["items"], each) for each in value]
        case "map":
            return [(key, in_arrow(schema["values"], each)) for key, each in value.items()]
        case "record":
            fields = {each["name"]: in_arrow(each["type"], value[each["name"]]) for each in schema["fields"]}
            return fields or True
    return value


def evolved(rng: random.Random, schema: Any) -> Any:
    """A schema that can read the values of this one: fields come, go and get new names, numbers get wider."""
    if isinstance(schema, list):
        return [evolved(rng, each) if isinstance(each, dict) else each for each in schema]
    if isinstance(schema, str):
        wider = rng.choice(WIDER.get(schema, [schema])) if rng.random() < 0.4 else schema
        return ["null", wider] if rng.random() < 0.3 and wider != "null" else wider
    match schema["type"]:
        case "array":
            return {**schema, "items": evolved(rng, schema["items"])}
        case "map":
            return {**schema, "values": evolved(rng, schema["values"])}
        case "enum":
            return {**schema, "symbols": [*reversed(schema["symbols"]), "D"]}
        case "record":
            return evolved_record(rng, schema)
    return schema


def evolved_record(rng: random.Random, schema: Any) -> Any:
    fields = []
    for each in schema["fields"]:
        if rng.random() < 0.2:
            continue
        field = {"name": each["name"], "type": evolved(rng, each["type"])}
        if rng.random() < 0.2:
            field |= {"name": "new_" + each["name"], "aliases": ["older", each["name"]]}
        fields.append(field)
    if rng.random() < 0.5:
        kind = rng.choice([*DEFAULTS, "string", "array", "map"])
        added: Any = {"array": {"type": "array", "items": "int"}, "map": {"type": "map", "values": "string"}}
        default: Any = {"string": "grün", "array": [1, 2], "map": {"a": "b"}}.get(kind, DEFAULTS.get(kind))
        fields.append({"name": "added", "type": added.get(kind, kind), "default": default})
    rng.shuffle(fields)
    return {**schema, "fields": fields}


def as_datum(schema: Any, value: Any) -> Any:
    """A value of an Arrow column in fastavro's form, which does not say which branch of a union it is."""
    if isinstance(schema, list):
        chosen, value = branch(schema, value)
        return None if value is None else as_datum(chosen, value)
    match schema if isinstance(schema, str) else schema["type"]:
        case "array":
            return [as_datum(schema["items"], each) for each in value]
        case "map":
            return {key: as_datum(schema["values"], each) for key, each in value}
        case "record":
            return {each["name"]: as_datum(each["type"], value[each["name"]]) for each in schema["fields"]}
    return value


def branch(schema: list[Any], value: Any) -> tuple[Any, Any]:
    """The branch of a union that a value of an Arrow column is of, and the value itself."""
    real = [each for each in schema if each != "null"]
    names = {each for each in real if isinstance(each, str)}
    if value is None or not real:
        return "null", None
    if len(real) == 1 or (len(names) == len(real) and names in ({"int", "long"}, {"float", "double"})):
        return real[-1], value
    (chosen,) = (n for n in range(len(real)) if value[f"member{n}"] is not None)
    return real[chosen], value[f"member{chosen}"]
