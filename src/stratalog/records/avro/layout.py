"""The Arrow type of an Avro schema, and the output columns that hold its values.

    null, boolean, float, double   the same in Arrow
    int, long                      int32, int64; date as date32; timestamps as microseconds, with a zone (UTC)
                                   unless they are local; times of day and nanoseconds stay numbers
    bytes, fixed                   binary; decimal as decimal128 of up to 38 digits
    string, enum                   string
    array, map, record             list, map with text keys, struct; a record without fields: a boolean,
                                   always true, as Parquet has no struct without fields
    union                          of null and one type: a column that may be null; int and long: int64;
                                   float and double: float64; others: a struct of member0, member1 ...,
                                   of which one is set, as Spark's from_avro does it

A type that contains itself cannot become columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from stratalog.errors import SchemaError
from stratalog.records.avro.schema import (
    DECIMAL,
    MAX_DEPTH,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    LogicalType,
    is_null,
    too_deep,
    unqualified,
)
from stratalog.records.kernels.avro import BIT, F32, F64, I32, I64, I128, NOTHING, OFFSETS, VARIABLE

MAX_DECIMAL_DIGITS = 38  # what 128 bits hold, in Arrow and in Spark
# With nested records, a schema of a few kilobytes can describe more columns than fit into memory.
MAX_COLUMNS = 10_000
MICROS = 1000  # the factor from milliseconds
_PRIMITIVES: dict[str, tuple[int, pa.DataType]] = {
    "null": (NOTHING, pa.null()),
    "boolean": (BIT, pa.bool_()),
    "int": (I32, pa.int32()),
    "long": (I64, pa.int64()),
    "float": (F32, pa.float32()),
    "double": (F64, pa.float64()),
    "bytes": (VARIABLE, pa.binary()),
    "string": (VARIABLE, pa.string()),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_WIDEST = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


@dataclass(slots=True, eq=False, kw_only=True)
class OutColumn:
    """A column of the result. The children of a map are its keys and its values."""

    number: int
    kind: int
    type: pa.DataType
    children: tuple[OutColumn, ...] = ()
    symbols: tuple[str, ...] | None = None  # of an enum: an entry of the column is an index into these

    def with_null(self) -> Iterator[int]:
        """The columns that get an entry when this one is null: itself, and the parts of a record."""
        yield self.number
        if self.kind != OFFSETS:
            for child in self.children:
                yield from child.with_null()

    @property
    def is_map(self) -> bool:
        return self.kind == OFFSETS and len(self.children) == 2


@dataclass(slots=True)
class AvroLayout:
    """The columns of a reader's schema, in the order of their numbers; the first is the whole value."""

    columns: list[OutColumn] = field(default_factory=list)
    _inside: list[str] = field(default_factory=list)
    _level: int = 0

    @classmethod
    def of(cls, reader: AvroType) -> AvroLayout:
        """The layout of a schema; SchemaError if it cannot become columns."""
        layout = cls()
        layout._column(reader, "the schema")
        return layout

    @property
    def root(self) -> OutColumn:
        return self.columns[0]

    def _new(self, kind: int, where: str) -> OutColumn:
        if len(self.columns) >= MAX_COLUMNS:
            raise SchemaError(f"{where} is one of more than {MAX_COLUMNS:,} columns, which is too many.")
        # The type of a column with parts is known only when those of its parts are.
        column = OutColumn(number=len(self.columns), kind=kind, type=pa.null())
        self.columns.append(column)
        return column

    def _column(self, kind: AvroType, where: str) -> OutColumn:
        self._level += 1
        if self._level > MAX_DEPTH:
            raise SchemaError(too_deep(where))
        column = self._made(kind, where)
        self._level -= 1
        return column

    def _made(self, kind: AvroType, where: str) -> OutColumn:
        match kind:
            case AvroUnion():
                return self._union(kind, where)
            case AvroRecord():
                return self._record(kind, where)
            case AvroArray(items=items):
                column = self._new(OFFSETS, where)
                column.children = (self._column(items, f"an item of {where}"),)
                column.type = pa.list_(column.children[0].type)
            case AvroMap(values=values):
                column = self._new(OFFSETS, where)
                keys = self._new(VARIABLE, where)
                keys.type = pa.string()
                column.children = (keys, self._column(values, f"a value of {where}"))
                column.type = pa.map_(pa.string(), column.children[1].type)
            case AvroEnum(symbols=symbols):
                column = self._new(I32, where)
                column.type, column.symbols = pa.string(), symbols
            case AvroFixed(logical=logical) | AvroPrimitive(name="bytes", logical=logical):
                is_decimal = logical is not None and logical.name == DECIMAL
                column = self._new(I128 if is_decimal else VARIABLE, where)
                column.type = _decimal(logical, where) if logical and is_decimal else pa.binary()
            case AvroPrimitive(name=name, logical=logical):
                buffer, plain = _PRIMITIVES[name]
                column = self._new(buffer, where)
                column.type = plain if logical is None else _LOGICAL.get(logical.name, plain)
        return column

    def _record(self, record: AvroRecord, where: str) -> OutColumn:
        if record.name in self._inside:
            raise SchemaError(
                f"{where} contains itself ({record.name!r}): a recursive type cannot become columns."
            )
        self._inside.append(record.name)
        column = self._new(NOTHING, where)
        name = unqualified(record.name)
        column.children = tuple(self._column(each.type, f"{name}.{each.name}") for each in record.fields)
        names = [each.name for each in record.fields]
        fields = [(each, child.type) for each, child in zip(names, column.children, strict=True)]
        column.type = pa.struct(fields) if fields else pa.bool_()
        self._inside.pop()
        return column

    def _union(self, union: AvroUnion, where: str) -> OutColumn:
        members = members_of(union)
        if len(members) == 1:
            return self._column(members[0], where)
        column = self._new(NOTHING, where)
        column.children = tuple(self._column(each, where) for each in members)
        column.type = pa.struct([(f"member{n}", child.type) for n, child in enumerate(column.children)])
        return column


def members_of(union: AvroUnion) -> tuple[AvroType, ...]:
    """The types of a union that become columns: without null, and with one type for numbers of two widths.

    The only member of a union of null alone is null.
    """
    real = tuple(each for each in union.branches if not is_null(each))
    plain = {each.name for each in real if isinstance(each, AvroPrimitive) and each.logical is None}
    wider = _WIDEST.get(frozenset(plain)) if len(plain) == len(real) else None
    return (AvroPrimitive(name=wider),) if wider else real or union.branches


def factor_of(logical: LogicalType | None) -> int:
    """The factor between a number and its value in the column."""
    return MICROS if logical is not None and logical.name.endswith("timestamp-millis") else 1


def _decimal(logical: LogicalType, where: str) -> pa.DataType:
    if logical.precision > MAX_DECIMAL_DIGITS:
        raise SchemaError(
            f"{where} is a decimal of {logical.precision} digits: 1 to {MAX_DECIMAL_DIGITS} digits are "
            "supported."
        )
    return pa.decimal128(logical.precision, logical.scale)
