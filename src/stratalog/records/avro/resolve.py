"""Makes the program that reads values of a writer's schema as values of the reader's, by Avro's rules.

- Fields match by name, or by an alias of the reader's field, in any order.
- A field that the reader does not have is skipped; one that the writer does not have gets its default.
- int can become long, float or double; long can become float or double; float can become double; text can
  become bytes, and bytes can become text.
- Records, enums and fixed match by the last part of their names, or by an alias of the reader's.
- A symbol that the reader does not have becomes the default of the reader's enum, if there is one.
- A value of a writer's union is read as the reader's type. If that type is a union too, its first branch of
  the value's type is used, or else its first branch to which the value can be converted.
- Decimals match if their scales do; other logical types if they are the same, or if one side has none.

If the two schemas do not match, values cannot be read, and SchemaError says where. If only a branch of a
writer's union does not match, the program fails only for values of that branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stratalog.errors import SchemaError
from stratalog.records.avro.defaults import encode_default
from stratalog.records.avro.layout import MAX_COLUMNS, OutColumn, factor_of, members_of
from stratalog.records.avro.schema import (
    DECIMAL as DECIMAL_TYPE,
)
from stratalog.records.avro.schema import (
    MAX_DEPTH,
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNamed,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    LogicalType,
    described,
    is_null,
    too_deep,
    unqualified,
)
from stratalog.records.kernels import avro as ops

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_SCALARS = {
    "boolean": ops.BOOLEAN,
    "int": ops.INT,
    "long": ops.LONG,
    "float": ops.FLOAT,
    "double": ops.DOUBLE,
    "bytes": ops.BYTES,
    "string": ops.BYTES,
}


@dataclass(slots=True)
class Programs:
    """Programs for the schemas of several writers, which all fill the columns of one reader."""

    reader: AvroType
    root: OutColumn
    nodes: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    reasons: list[str] = field(default_factory=list)  # for the codes from FIRST_OWN_CODE downwards
    _skipping: dict[AvroRecord, int] = field(default_factory=dict)  # records without a finished node
    _limit: int = 0
    _level: int = 0

    def __post_init__(self) -> None:
        self._limit = 1
        self._null(self.root)  # node 0, which the kernel runs for a null row

    def add(self, writer: AvroType) -> int:
        """The root node of a new program; SchemaError if the two schemas do not match."""
        marks = len(self.nodes), len(self.lists), len(self.constants), len(self.reasons)
        self._limit = len(self.nodes) + MAX_COLUMNS
        self._level = 0
        self._skipping.clear()
        try:
            return self._node(writer, self.reader, self.root, "the schema")
        except (SchemaError, RecursionError) as error:
            self._forget(*marks)
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(too_deep("the schema")) from None

    def _forget(self, nodes: int, lists: int, constants: int, reasons: int) -> None:
        """Remove a program that could not be finished."""
        del self.nodes[nodes:], self.lists[lists:], self.constants[constants:], self.reasons[reasons:]

    def _node(self, writer: AvroType, reader: AvroType, out: OutColumn, where: str) -> int:
        """A node that reads what the writer wrote as the reader's type."""
        self._level += 1
        if self._level > MAX_DEPTH:
            raise SchemaError(too_deep(where))
        node = self._resolved(writer, reader, out, where)
        self._level -= 1
        return node

    def _resolved(self, writer: AvroType, reader: AvroType, out: OutColumn, where: str) -> int:
        if isinstance(writer, AvroUnion):
            return self._writer_union(writer, reader, out, where)
        if isinstance(reader, AvroUnion):
            return self._reader_union(writer, reader, out, where)
        if is_null(writer) and is_null(reader):
            return self._null(out)
        _check_match(writer, reader, where)
        match writer, reader:
            case AvroRecord(), AvroRecord():
                return self._record(writer, reader, out)
            case AvroArray(), AvroArray():
                item = self._node(writer.items, reader.items, out.children[0], f"an item of {where}")
                return self._add(ops.ARRAY, out.number, item, c=int(has_no_bytes(writer.items)))
            case AvroMap(), AvroMap():
                value = self._node(writer.values, reader.values, out.children[1], f"a value of {where}")
                return self._map(out.number, out.children[0].number, value)
            case AvroEnum(), AvroEnum():
                return self._enum(writer, reader, out)
        return self._scalar(writer, reader, out, where)

    def _scalar(self, writer: AvroType, reader: AvroType, out: OutColumn, where: str) -> int:
        if out.kind == ops.I128:
            limit = 10**out.type.precision - 1
            limits = self._list((*_halves(-limit), *_halves(limit)))
            if isinstance(writer, AvroFixed):
                return self._add(ops.DIGITS, out.number, limits, writer.size)
            return self._add(ops.NUMERAL, out.number, limits)
        if isinstance(writer, AvroFixed):
            return self._add(ops.FIXED, out.number, b=writer.size)
        assert isinstance(writer, AvroPrimitive), where
        assert isinstance(reader, AvroPrimitive), where
        op = _SCALARS[writer.name]
        if op == ops.BYTES:
            return self._add(op, out.number, b=int(reader.name == "string"))
        return self._add(op, out.number, b=factor_of(reader.logical))

    def _map(self, column: int, keys: int, value: int) -> int:
        """An array of pairs, which have no separate column."""
        pair = self._list([self._add(ops.BYTES, keys, b=1), value])
        return self._add(ops.ARRAY, column, self._add(ops.RECORD, -1, pair, 2))

    def _writer_union(self, writer: AvroUnion, reader: AvroType, out: OutColumn, where: str) -> int:
        """One node for each branch. A branch that does not match the reader fails when a value uses it."""
        nodes = []
        level = self._level
        for branch in writer.branches:
            try:
                nodes.append(self._node(branch, reader, out, where))
            except SchemaError as error:
                if len(self.nodes) >= self._limit:
                    raise
                self._level = level
                self._skipping.clear()
                nodes.append(self._add(ops.FAIL, -1, self._reason(str(error))))
        return self._add(ops.UNION, -1, self._list(nodes), len(nodes))

    def _reader_union(self, writer: AvroType, reader: AvroUnion, out: OutColumn, where: str) -> int:
        if is_null(writer) and any(map(is_null, reader.branches)):
            return self._null(out)
        members = members_of(reader)
        chosen = _branch_for(writer, members)
        if chosen is None:
            types = ", ".join(map(described, reader.branches))
            raise SchemaError(f"{where} is {described(writer)}, and the reader's union has only {types}.")
        if len(members) == 1:
            return self._node(writer, members[chosen], out, where)
        member = self._node(writer, members[chosen], out.children[chosen], where)
        others = [number for n, each in enumerate(out.children) if n != chosen for number in each.with_null()]
        return self._add(ops.MEMBER, out.number, member, self._list(others), len(others))

    def _record(self, writer: AvroRecord, reader: AvroRecord, out: OutColumn) -> int:
        name = unqualified(reader.name)
        columns = dict(zip((each.name for each in reader.fields), out.children, strict=True))
        missing = {each.name: each for each in reader.fields}
        written = {each.name for each in writer.fields}
        # The aliases of a field that the writer has under the same name are not tried.
        renamed = [each for each in reader.fields if each.name not in written]
        by_alias = {alias: each for each in renamed for alias in each.aliases}
        nodes = []
        for each in writer.fields:
            same = missing.get(each.name) or by_alias.get(each.name)
            if same is not None and same.name in missing:
                del missing[same.name]
                where = f"{name}.{same.name}"
                nodes.append(self._node(each.type, same.type, columns[same.name], where))
            else:
                nodes.append(self._skip(each.type))
        nodes += [self._default(each, columns[each.name], name) for each in missing.values()]
        return self._add(ops.RECORD, out.number, self._list(nodes), len(nodes))

    def _default(self, reader: AvroField, out: OutColumn, record: str) -> int:
        where = f"{record}.{reader.name}"
        if reader.default is NO_DEFAULT:
            raise SchemaError(f"{where} is not in the writer's schema, and has no default.")
        if reader.default is None and is_null_allowed(reader.type):
            return self._null(out)
        node = self._node(reader.type, reader.type, out, where)
        try:
            encoded = encode_default(reader.type, reader.default)
        except SchemaError as error:
            raise SchemaError(f"{where}: {error}") from None
        start = len(self.constants)
        self.constants += encoded
        return self._add(ops.DEFAULT, -1, node, start, len(self.constants))

    def _enum(self, writer: AvroEnum, reader: AvroEnum, out: OutColumn) -> int:
        number = {symbol: n for n, symbol in enumerate(reader.symbols)}
        spare = -1 if reader.default is None else number[reader.default]
        numbers = [number.get(symbol, spare) for symbol in writer.symbols]
        code = self._reason(f"the enum {reader.name} does not have this symbol in the reader's schema.")
        return self._add(ops.ENUM, out.number, self._list(numbers), len(numbers), code)

    def _skip(self, writer: AvroType) -> int:
        """A node that only checks what the writer wrote."""
        self._level += 1
        if self._level > MAX_DEPTH:
            raise SchemaError(too_deep(f"a {described(writer)} of the writer's schema"))
        node = self._skipped(writer)
        self._level -= 1
        return node

    def _skipped(self, writer: AvroType) -> int:
        match writer:
            case AvroUnion(branches=branches):
                nodes = [self._skip(each) for each in branches]
                return self._add(ops.UNION, -1, self._list(nodes), len(nodes))
            case AvroRecord():
                return self._skip_record(writer)
            case AvroArray(items=items):
                return self._add(ops.ARRAY, -1, self._skip(items), c=int(has_no_bytes(items)))
            case AvroMap(values=values):
                return self._map(-1, -1, self._skip(values))
            case AvroEnum(symbols=symbols):
                return self._add(ops.ENUM, -1, 0, len(symbols))
            case AvroFixed(size=size):
                return self._add(ops.FIXED, -1, b=size)
        if is_null(writer):
            return self._add(ops.NULL, -1)
        return self._add(_SCALARS[writer.name], -1)

    def _skip_record(self, writer: AvroRecord) -> int:
        """The node of a record that is skipped. If it contains itself, its node refers to itself."""
        if writer in self._skipping:
            return self._skipping[writer]
        first = self._list([0] * len(writer.fields))
        node = self._skipping[writer] = self._add(ops.RECORD, -1, first, len(writer.fields))
        for place, each in enumerate(writer.fields, first):
            self.lists[place] = self._skip(each.type)
        del self._skipping[writer]
        return node

    def _null(self, out: OutColumn) -> int:
        columns = list(out.with_null())
        return self._add(ops.NULL, -1, 0, self._list(columns), len(columns))

    def _add(self, op: int, column: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        if len(self.nodes) >= self._limit:
            raise SchemaError(f"the schema has more than {MAX_COLUMNS:,} parts, which is too many.")
        self.nodes.append((op, column, a, b, c))
        return len(self.nodes) - 1

    def _list(self, numbers: Iterable[int]) -> int:
        start = len(self.lists)
        self.lists += numbers
        return start

    def _reason(self, text: str) -> int:
        """The code of a reason."""
        self.reasons.append(text)
        return ops.FIRST_OWN_CODE - len(self.reasons) + 1


def is_null_allowed(kind: AvroType) -> bool:
    """Whether null is a value of this type."""
    return is_null(kind) or (isinstance(kind, AvroUnion) and any(map(is_null, kind.branches)))


def _branch_for(writer: AvroType, members: Sequence[AvroType]) -> int | None:
    """The reader's branch for a writer's type: the first that is the same, or else the first that fits."""
    for is_exact in (True, False):
        for number, each in enumerate(members):
            if _matches(writer, each) and (not is_exact or _is_same(writer, each)):
                return number
    return None


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    if isinstance(writer, AvroPrimitive) and isinstance(reader, AvroPrimitive):
        return writer.name == reader.name
    if isinstance(writer, AvroNamed) and isinstance(reader, AvroNamed):
        return type(writer) is type(reader) and writer.name == reader.name
    return type(writer) is type(reader)


def _check_match(writer: AvroType, reader: AvroType, where: str) -> None:
    if not _matches(writer, reader):
        raise SchemaError(
            f"{where} is {described(writer)} in the writer's schema, which cannot be read as "
            f"{described(reader)}."
        )


def _matches(writer: AvroType, reader: AvroType) -> bool:
    """Whether two types that are not unions match, without looking at their parts."""
    match writer, reader:
        case (AvroArray(), AvroArray()) | (AvroMap(), AvroMap()):
            return True
        case AvroRecord(), AvroRecord():
            return _have_same_name(writer, reader)
        case AvroEnum(), AvroEnum():
            return _have_same_name(writer, reader)
        case AvroFixed(), AvroFixed():
            fits = writer.size == reader.size and _have_same_name(writer, reader)
            return fits and _mean_the_same(writer.logical, reader.logical)
        case AvroPrimitive(), AvroPrimitive():
            fits = reader.name in (writer.name, *_PROMOTIONS.get(writer.name, ()))
            return fits and _mean_the_same(writer.logical, reader.logical)
    return False


def _have_same_name(writer: AvroNamed, reader: AvroNamed) -> bool:
    last = unqualified(writer.name)
    return last == unqualified(reader.name) or not reader.aliases.isdisjoint({writer.name, last})


def _mean_the_same(writer: LogicalType | None, reader: LogicalType | None) -> bool:
    if writer is None or reader is None:
        return True
    if writer.name == reader.name == DECIMAL_TYPE:
        return writer.scale == reader.scale
    return writer.name == reader.name


def has_no_bytes(kind: AvroType, seen: dict[AvroRecord, bool] | None = None) -> bool:
    """Whether values take no bytes at all, like nulls."""
    seen = {} if seen is None else seen
    if isinstance(kind, AvroRecord):
        if kind not in seen:
            seen[kind] = True  # a type that contains only itself has no bytes either
            seen[kind] = all(has_no_bytes(each.type, seen) for each in kind.fields)
        return seen[kind]
    return is_null(kind) or (isinstance(kind, AvroFixed) and kind.size == 0)


def _halves(number: int) -> tuple[int, int]:
    """The upper and the lower 64 bits of a 128-bit number, each as a signed 64-bit number."""
    return number >> 64, int(np.uint64(number & 0xFFFF_FFFF_FFFF_FFFF).astype(np.int64))
