"""Values in the frame of Confluent's serializers: a zero byte, the id of a schema in four bytes, the value.

Each value is decoded by the schema of its own id, and converted to the reader's schema. A value whose id is
not known is never decoded with another schema: it is null, and the reason says so.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.errors import SchemaError
from stratalog.jobs.decoding.store import AVRO, JSON, PROTOBUF, SchemaStore, StoredSchema
from stratalog.jobs.decoding.texts import decode_texts, json_text
from stratalog.jobs.decoding.undecoded import Undecoded
from stratalog.records.avro.decode import AvroDecoder
from stratalog.records.avro.schema import AvroType, parse_schema
from stratalog.records.kernels.avro import ABSENT, OK
from stratalog.records.kernels.memory import Bytes, byte_array

FRAME_SIZE = 5  # a zero byte and the id
NO_FRAME = "it does not begin with a zero byte and the id of a schema"
_NO_FRAME, _REFUSED = -50, -51  # codes in addition to the kernel's


class FramedDecoder:
    """Decodes columns of framed values with one reader schema. It belongs to one thread."""

    def __init__(self, store: SchemaStore, reader: StoredSchema, context: str) -> None:
        self._store, self._context, self._kind = store, context, reader.kind
        self._avro = AvroDecoder(self._parsed(reader)) if reader.kind == AVRO else None
        self._programs: dict[int, int | str] = {}  # by id: the program, or why there is none

    @property
    def type(self) -> pa.DataType:
        if self._avro is not None:
            return self._avro.type
        return pa.string() if self._kind == JSON else pa.binary()

    def decode(self, column: pa.Array) -> tuple[pa.Array, pa.Array, Undecoded]:
        """(the values, the ids of their schemas, bytes and reasons of values that could not be decoded)."""
        data, rows, codes = values_of(column)
        sizes = rows[:, 1] - rows[:, 0]
        has_frame = (codes == OK) & (sizes >= FRAME_SIZE)
        has_frame[has_frame] = data[rows[has_frame, 0]] == 0
        ids = np.full(len(rows), -1, np.int64)
        ids[has_frame] = _ids_at(data, rows[has_frame, 0] + 1)
        codes[(codes == OK) & ~has_frame] = _NO_FRAME
        rows[has_frame, 0] += FRAME_SIZE
        for schema_id in np.unique(ids[has_frame]).tolist():
            program = self._program(schema_id)
            same = has_frame & (ids == schema_id)
            if isinstance(program, int):
                rows[same, 2] = program
            else:
                codes[same] = _REFUSED
        reasons: dict[int, str] = {}
        if self._avro is not None:
            values = self._avro.decode(data, rows, codes)
        elif self._kind == JSON:
            values, found = decode_texts(column, json_text, start=FRAME_SIZE, among=codes == OK)
            reasons = {row: f"schema {ids[row]}: {reason}" for row, reason in found.items()}
        else:
            values = pa.nulls(len(column), self.type)
        reasons |= self._reasons(codes, ids)
        id_column = pa.array(ids.astype(np.int32), mask=~has_frame)
        return values, id_column, Undecoded.of(column, reasons)

    def _reasons(self, codes: NDArray[np.int32], ids: NDArray[np.int64]) -> dict[int, str]:
        known: dict[tuple[int, int], str] = {}
        reasons = {}
        for row in np.flatnonzero((codes != OK) & (codes != ABSENT)).tolist():
            key = int(codes[row]), int(ids[row])
            if key not in known:
                known[key] = self._reason(*key)
            reasons[row] = known[key]
        return reasons

    def _reason(self, code: int, schema_id: int) -> str:
        if code == _NO_FRAME:
            return NO_FRAME
        if code == _REFUSED:
            return str(self._programs[schema_id])
        assert self._avro is not None
        return f"schema {schema_id}: {self._avro.reason(code)}"

    def _program(self, schema_id: int) -> int | str:
        """The program for values of this id, or the reason why they cannot be decoded."""
        if schema_id not in self._programs:
            self._programs[schema_id] = self._made(schema_id)
        return self._programs[schema_id]

    def _made(self, schema_id: int) -> int | str:
        schema = self._store.by_id(schema_id, self._context)
        if schema is None:
            return f"the schema id {schema_id} is not known"
        if schema.kind == PROTOBUF:
            return f"schema {schema_id} is Protobuf, whose values stay bytes"
        if schema.kind not in (AVRO, JSON):
            return f"schema {schema_id} has the type {schema.kind}, which is not known"
        if schema.kind != self._kind:
            return f"schema {schema_id} is of type {schema.kind}, and the reader schema of type {self._kind}"
        if self._avro is None:
            return 0
        try:
            return self._avro.root_of(self._parsed(schema))
        except SchemaError as error:
            return f"schema {schema_id} cannot be converted to the reader schema: {error}".removesuffix(".")

    def _parsed(self, schema: StoredSchema) -> AvroType:
        return parse_schema(schema.text, self._store.texts_before(schema, self._context))


def values_of(column: pa.Array) -> tuple[Bytes, NDArray[np.int64], NDArray[np.int32]]:
    """(the bytes of a binary column, rows of start and end and a zero, codes: OK, or ABSENT for null)."""
    count = len(column)
    _, offsets, data = column.buffers()
    rows = np.zeros((count, 3), np.int64)
    codes = np.zeros(count, np.int32)
    if count:
        ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1]
        rows[:, 0], rows[:, 1] = ends[:-1], ends[1:]
        if column.null_count:
            codes[~np.asarray(column.is_valid())] = ABSENT
    # The kernel reads no byte if there are none, but an array that it gets must not be empty.
    return byte_array(data if data is not None and data.size else b"\0"), rows, codes


def _ids_at(data: Bytes, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of four bytes, the highest first, at these positions."""
    ids = np.zeros(len(positions), np.int64)
    for place in range(4):
        ids = (ids << 8) | data[positions + place]
    return ids.astype(np.uint32).view(np.int32).astype(np.int64)
