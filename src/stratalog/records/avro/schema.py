"""Avro schemas: the JSON text parsed into a tree, with names, aliases, defaults and logical types.

A name refers to the same object wherever it is used, so a recursive type contains itself. An invalid schema
is a SchemaError; an unknown logical type, or one that does not fit its type, is ignored, as the specification
says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stratalog.errors import SchemaError
from stratalog.limits import INT32_MAX

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
# A schema can be as deep as its author likes, but Python's stack cannot.
MAX_DEPTH = 64
_NAME = re.compile(r"[^\W\d]\w*")
_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
    "uuid": "string",
}
DECIMAL = "decimal"
NO_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class LogicalType:
    """The meaning of a number, text or bytes; precision and scale are those of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AvroPrimitive:
    """A type without parts; `name` is one of PRIMITIVES."""

    name: str
    logical: LogicalType | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AvroFixed:
    """Bytes of one size."""

    name: str
    aliases: frozenset[str]
    size: int
    logical: LogicalType | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AvroEnum:
    """One of several symbols; `default` replaces a writer's symbol that a reader does not have."""

    name: str
    aliases: frozenset[str]
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AvroField:
    """A field of a record. `default` is JSON, or NO_DEFAULT."""

    name: str
    aliases: frozenset[str]
    type: AvroType
    default: Any = NO_DEFAULT


@dataclass(slots=True, eq=False, kw_only=True)
class AvroRecord:
    """The fields in the order in which they are written.

    They are assigned after the record is registered, because a field may have the record's own type.
    """

    name: str
    aliases: frozenset[str]
    fields: tuple[AvroField, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AvroArray:
    """A list of items of one type."""

    items: AvroType


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AvroMap:
    """Values of one type by text keys."""

    values: AvroType


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AvroUnion:
    """One of several types; a value has the number of its branch before it."""

    branches: tuple[AvroType, ...]


AvroNamed = AvroRecord | AvroEnum | AvroFixed
AvroType = AvroPrimitive | AvroNamed | AvroArray | AvroMap | AvroUnion


def parse_schema(text: str, before: Sequence[str] = ()) -> AvroType:
    """Parse a schema into a tree. It may use types that the schemas in `before`, its references, define."""
    parser = _Parser()
    for reference in before:
        parser.parse(reference)
    return parser.parse(text)


def named_types(text: str) -> tuple[set[str], set[str]]:
    """(full names of the types that a schema defines, names that it uses and does not define)."""
    parser = _Parser(lenient=True)
    parser.parse(text)
    return set(parser.named), parser.missing


def unqualified(name: str) -> str:
    """The last part of a full name."""
    return name.rpartition(".")[2]


def is_null(kind: AvroType) -> bool:
    """Whether this is the type of null."""
    return isinstance(kind, AvroPrimitive) and kind.name == "null"


def too_deep(where: str) -> str:
    """The message for a type with too many levels."""
    return f"{where} is nested more than {MAX_DEPTH} levels deep."


def described(kind: AvroType) -> str:
    """The name of a type in a message."""
    match kind:
        case AvroPrimitive(name=name, logical=logical):
            return name if logical is None else logical.name
        case AvroArray():
            return "array"
        case AvroMap():
            return "map"
        case AvroUnion():
            return "union"
    return f"{_KINDS[type(kind)]} {kind.name}"


_KINDS: dict[type, str] = {AvroRecord: "record", AvroEnum: "enum", AvroFixed: "fixed"}


@dataclass(slots=True)
class _Parser:
    """Parses schemas one after the other; each knows the named types of those before it.

    A lenient parser records the names that are not defined, and treats them as null.
    """

    lenient: bool = False
    named: dict[str, AvroNamed] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def parse(self, text: str) -> AvroType:
        try:
            return self._type(_json(text), "", "the schema", 0)
        except RecursionError:
            raise SchemaError(too_deep("the schema")) from None

    def _type(self, found: Any, namespace: str, where: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise SchemaError(too_deep(where))
        if isinstance(found, str):
            return AvroPrimitive(name=found) if found in PRIMITIVES else self._known(found, namespace, where)
        if isinstance(found, list):
            return self._union(found, namespace, where, depth + 1)
        if not isinstance(found, dict) or "type" not in found:
            raise SchemaError(f"{where} is not an Avro type: {json.dumps(found)[:80]}.")
        kind = found["type"]
        if isinstance(kind, dict | list):
            return self._type(kind, namespace, where, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(found, kind, namespace, where, depth + 1)
        if kind == "array":
            return AvroArray(
                items=self._type(found.get("items"), namespace, f"an item of {where}", depth + 1)
            )
        if kind == "map":
            return AvroMap(
                values=self._type(found.get("values"), namespace, f"a value of {where}", depth + 1)
            )
        if kind in PRIMITIVES:
            return AvroPrimitive(name=kind, logical=_logical(found, kind))
        return self._type(kind, namespace, where, depth + 1)

    def _known(self, name: str, namespace: str, where: str) -> AvroType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.named.get(full) or self.named.get(name)
        if found is not None:
            return found
        if not self.lenient:
            raise SchemaError(f"{where} names the Avro type {name!r}, which does not exist.")
        self.missing.add(full)
        return AvroPrimitive(name="null")

    def _union(self, found: list[Any], namespace: str, where: str, depth: int) -> AvroType:
        branches = tuple(self._type(each, namespace, where, depth) for each in found)
        kinds = [described(each) if isinstance(each, AvroNamed) else _plain_name(each) for each in branches]
        if "union" in kinds:
            raise SchemaError(f"{where} is a union directly inside a union, which Avro does not allow.")
        twice = sorted({each for each in kinds if kinds.count(each) > 1})
        if (twice and not self.lenient) or not kinds:
            what = f"has {twice[0]} twice" if twice else "has no types"
            raise SchemaError(f"{where} is a union that {what}, which Avro does not allow.")
        return AvroUnion(branches=branches)

    def _define(self, found: dict[str, Any], kind: str, namespace: str, where: str, depth: int) -> AvroNamed:
        name, namespace = _full_name(found, namespace, where)
        aliases = _aliases(found, name, namespace)
        if name in self.named:
            raise SchemaError(f"the Avro type {name} is defined twice.")
        if kind == "enum":
            self.named[name] = _enum(found, name, aliases)
        elif kind == "fixed":
            self.named[name] = _fixed(found, name, aliases)
        else:
            self.named[name] = record = AvroRecord(name=name, aliases=aliases)
            record.fields = tuple(self._fields(found.get("fields"), name, namespace, depth))
        return self.named[name]

    def _fields(self, found: Any, record: str, namespace: str, depth: int) -> Iterable[AvroField]:
        if not isinstance(found, list):
            raise SchemaError(f"the Avro record {record} has no list of fields.")
        names = set()
        for each in found:
            if not isinstance(each, dict) or not {"name", "type"} <= each.keys():
                raise SchemaError(f"a field of the Avro record {record} has no name or no type.")
            name = each["name"]
            if not _is_name(name) or name in names:
                raise SchemaError(
                    f"the Avro record {record} has two fields with the name {name!r}, or {name!r} is not a "
                    "valid name."
                )
            names.add(name)
            yield AvroField(
                name=name,
                aliases=frozenset(_texts(each.get("aliases", []), f"the aliases of {record}.{name}")),
                type=self._type(each["type"], namespace, f"{unqualified(record)}.{name}", depth),
                default=each.get("default", NO_DEFAULT),
            )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:  # also for a number with thousands of digits
        raise SchemaError(f"the Avro schema is not JSON: {error}.") from None


def _enum(found: dict[str, Any], name: str, aliases: frozenset[str]) -> AvroEnum:
    symbols = _texts(found.get("symbols"), f"the symbols of the Avro enum {name}")
    if not all(map(_is_name, symbols)) or len(set(symbols)) < len(symbols):
        raise SchemaError(f"the Avro enum {name} has a symbol twice, or one that is not a name.")
    default = found.get("default")
    if default is not None and default not in symbols:
        raise SchemaError(f"the Avro enum {name} has the default {default!r}, which is not a symbol of it.")
    return AvroEnum(name=name, aliases=aliases, symbols=tuple(symbols), default=default)


def _fixed(found: dict[str, Any], name: str, aliases: frozenset[str]) -> AvroFixed:
    size = found.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= INT32_MAX:
        raise SchemaError(f"the Avro fixed {name} has the size {size!r}, which is not a number of bytes.")
    return AvroFixed(name=name, aliases=aliases, size=size, logical=_logical(found, "fixed"))


def _logical(found: dict[str, Any], kind: str) -> LogicalType | None:
    name = found.get("logicalType")
    if name == DECIMAL and kind in ("bytes", "fixed"):
        precision, scale = found.get("precision"), found.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision:
            return LogicalType(DECIMAL, precision, scale)
        return None
    return LogicalType(name) if isinstance(name, str) and _LOGICAL.get(name) == kind else None


def _full_name(found: dict[str, Any], namespace: str, where: str) -> tuple[str, str]:
    """(full name, namespace) of a type; without a namespace, it has that of the type around it."""
    name = found.get("name")
    if not isinstance(name, str) or not name or not all(map(_is_name, name.split("."))):
        raise SchemaError(
            f"{where} is an Avro {found['type']} with the name {name!r}, which is not a valid name."
        )
    if "." in name:
        return name, name.rpartition(".")[0]
    own = found.get("namespace", namespace)
    if not isinstance(own, str):
        raise SchemaError(f"the namespace of the Avro type {name} is {own!r}, which is not text.")
    return (f"{own}.{name}" if own else name), own


def _aliases(found: dict[str, Any], name: str, namespace: str) -> frozenset[str]:
    """The full names that the type had before."""
    given = _texts(found.get("aliases", []), f"the aliases of {name}")
    return frozenset(each if "." in each or not namespace else f"{namespace}.{each}" for each in given)


def _texts(found: Any, what: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise SchemaError(f"{what} are {json.dumps(found)[:80]}, which is not a list of texts.")
    return found


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _plain_name(kind: AvroType) -> str:
    return kind.name if isinstance(kind, AvroPrimitive) else described(kind)
