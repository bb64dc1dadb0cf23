"""Avro values of many writers as one Arrow column, with the reason for each value that could not be read.

    decoder = AvroDecoder(parse_schema(reader_text))
    root = decoder.root_of(parse_schema(writer_text))
    column = decoder.decode(data, rows, codes)        # rows of (start, end, root) in data; fills codes

A value that cannot be read is null in the column, and its code has a reason: `decoder.reason(code)`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.records.avro.layout import AvroLayout, OutColumn
from stratalog.records.avro.resolve import Programs
from stratalog.records.avro.schema import AvroType
from stratalog.records.kernels import avro as kernels
from stratalog.records.kernels.avro import COUNT, DATA, ITEMS, KIND, SIZE, VALIDITY, VALUES, Int64Array
from stratalog.records.kernels.memory import Bytes

# A value of a type that contains itself can have any depth. Any other type has far fewer levels than this.
MOST_LEVELS = 1000
ALIGNMENT = 64  # of each buffer, as Arrow recommends
_WIDTHS = {
    kernels.NOTHING: 0,
    kernels.BIT: 1,
    kernels.I32: 4,
    kernels.I64: 8,
    kernels.F32: 4,
    kernels.F64: 8,
    kernels.I128: 16,
    kernels.VARIABLE: 4,
    kernels.OFFSETS: 4,
}
_UNITS = {**_WIDTHS, kernels.NOTHING: 1, kernels.I128: 8}  # the unit of VALUES, by kind
REASONS = {
    kernels.TOO_SHORT: "the bytes end before the value does",
    kernels.TOO_LONG: "there are more bytes than the value has",
    kernels.BAD_NUMBER: "a number is too large for its type",
    kernels.BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    kernels.BAD_SIZE: "a length is negative",
    kernels.BAD_TEXT: "a text is not UTF-8",
    kernels.BAD_BRANCH: "a union has no branch of this number",
    kernels.BAD_SYMBOL: "an enum has no symbol of this number",
    kernels.BAD_COUNT: "an array or map says that it has more items than the bytes can hold",
    kernels.BAD_DECIMAL: "a decimal has more digits than its type",
    kernels.BAD_TIME: "a time is too far from 1970 for a number of microseconds",
    kernels.TOO_LARGE: "the batch that it is in would have more than 2 GiB in one column",
    kernels.TOO_DEEP: f"it is nested more than {MOST_LEVELS:,} levels deep",
}


class AvroDecoder:
    """Reads values as values of the reader's schema. It belongs to one thread."""

    def __init__(self, reader: AvroType) -> None:
        self._layout = AvroLayout.of(reader)
        self._programs = Programs(reader, self._layout.root)
        self._tables: tuple[Int64Array, Int64Array, Bytes] | None = None

    @property
    def type(self) -> pa.DataType:
        return self._layout.root.type

    def root_of(self, writer: AvroType) -> int:
        """The program for values of this schema; SchemaError if they cannot be read with the reader's."""
        root = self._programs.add(writer)
        self._tables = None
        return root

    def decode(self, data: Bytes, rows: Int64Array, codes: NDArray[np.int32]) -> pa.Array:
        """The values of these rows: (start, end, root) in `data`.

        On entry, `codes` is OK for each row to read; a row with any other code becomes null. Afterwards
        `codes` also has the code of each row that could not be read.
        """
        nodes, lists, constants = self._tables = self._tables or self._made()
        columns = self._columns()
        before = np.zeros(2 * len(columns), np.int64)
        stack = np.zeros((MOST_LEVELS, kernels.FRAME_FIELDS), np.int64)
        program = data, constants, rows, nodes, lists, columns, before, stack
        kernels.decode_values(*program, *_views(np.zeros(kernels.SCRATCH, np.uint8)), codes, False)
        memory, places = _memory_for(columns)
        kernels.decode_values(*program, *_views(memory), codes, True)
        return _Assembly(memory, columns, places).array(self._layout.root)

    def reason(self, code: int) -> str:
        """Why a value could not be read."""
        if code <= kernels.FIRST_OWN_CODE:
            return self._programs.reasons[kernels.FIRST_OWN_CODE - code].removesuffix(".")
        return REASONS[code]

    def _made(self) -> tuple[Int64Array, Int64Array, Bytes]:
        programs = self._programs
        nodes = np.array(programs.nodes, np.int64)
        constants = np.frombuffer(bytes(programs.constants) or b"\0", np.uint8).copy()
        return nodes, np.array(programs.lists, np.int64), constants

    def _columns(self) -> Int64Array:
        columns = np.zeros((len(self._layout.columns), kernels.COLUMN_FIELDS), np.int64)
        for out in self._layout.columns:
            columns[out.number, KIND] = out.kind
            if out.kind == kernels.OFFSETS:
                columns[out.number, ITEMS] = out.children[0].number
        return columns


def _views(
    memory: Bytes,
) -> tuple[Bytes, NDArray[np.int32], Int64Array, NDArray[np.float32], NDArray[np.float64]]:
    """The same memory in each width that the kernel writes."""
    reals = memory.view(np.float32), memory.view(np.float64)
    return memory, memory.view(np.int32), memory.view(np.int64), *reals


def _memory_for(columns: Int64Array) -> tuple[Bytes, Int64Array]:
    """Memory for what was counted, and where in it validity, values and data of each column begin."""
    places = np.zeros((len(columns), 3), np.int64)
    used = ALIGNMENT  # room for SCRATCH
    for number, column in enumerate(columns):
        kind, count = int(column[KIND]), int(column[COUNT])
        entries = count + 1 if kind in (kernels.VARIABLE, kernels.OFFSETS) else count
        for place, size in enumerate((count, _WIDTHS[kind] * entries, int(column[SIZE]))):
            places[number, place] = used
            used += -(-size // ALIGNMENT) * ALIGNMENT
        columns[number, VALUES] = places[number, 1] // _UNITS[kind]
    columns[:, VALIDITY], columns[:, DATA] = places[:, 0], places[:, 2]
    columns[:, COUNT] = columns[:, SIZE] = 0
    return np.zeros(used, np.uint8), places


def _all_true(count: int) -> pa.Buffer:
    return pa.py_buffer(np.full(-(-count // 8), 0xFF, np.uint8))


class _Assembly:
    """Arrow arrays over the memory that the kernel has filled."""

    def __init__(self, memory: Bytes, columns: Int64Array, places: Int64Array) -> None:
        self._bytes, self._columns, self._places = memory, columns, places
        self._memory = pa.py_buffer(memory)

    def array(self, out: OutColumn) -> pa.Array:
        column = self._columns[out.number]
        count, size = int(column[COUNT]), int(column[SIZE])
        validity, values, data = map(int, self._places[out.number])
        if pa.types.is_null(out.type):
            return pa.nulls(count)
        bits, nulls = self._bits(validity, count)
        if out.kind == kernels.NOTHING and not out.children:
            return pa.Array.from_buffers(out.type, count, [bits, _all_true(count)], nulls)
        if out.kind == kernels.NOTHING:
            children = [self.array(each) for each in out.children]
            return pa.Array.from_buffers(out.type, count, [bits], nulls, children=children)
        if out.kind == kernels.BIT:
            packed = np.packbits(self._bytes[values : values + count], bitorder="little")
            return pa.Array.from_buffers(out.type, count, [bits, pa.py_buffer(packed)], nulls)
        if out.kind == kernels.VARIABLE:
            self._end(values, count, size)
            ends = self._memory.slice(values, 4 * (count + 1))
            return pa.Array.from_buffers(out.type, count, [bits, ends, self._memory.slice(data, size)], nulls)
        if out.kind == kernels.OFFSETS:
            items = self._items(out)
            self._end(values, count, len(items))
            ends = self._memory.slice(values, 4 * (count + 1))
            return pa.Array.from_buffers(out.type, count, [bits, ends], nulls, children=[items])
        filled = self._memory.slice(values, _WIDTHS[out.kind] * count)
        if out.symbols is not None:
            numbers = pa.Array.from_buffers(pa.int32(), count, [bits, filled], nulls)
            return pa.array(out.symbols, pa.string()).take(numbers)
        return pa.Array.from_buffers(out.type, count, [bits, filled], nulls)

    def _items(self, out: OutColumn) -> pa.Array:
        if not out.is_map:
            return self.array(out.children[0])
        keys, values = (self.array(each) for each in out.children)
        fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", values.type)]
        return pa.StructArray.from_arrays([keys, values], fields=fields)

    def _bits(self, position: int, count: int) -> tuple[pa.Buffer | None, int]:
        """(validity bits, number of nulls); no bits if nothing is null."""
        valid = self._bytes[position : position + count]
        nulls = count - int(np.count_nonzero(valid))
        return (pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None), nulls

    def _end(self, position: int, count: int, end: int) -> None:
        """Write the last of Arrow's offsets, the end of the last row: there is one offset more than rows."""
        self._bytes[position : position + 4 * (count + 1)].view(np.int32)[count] = end
