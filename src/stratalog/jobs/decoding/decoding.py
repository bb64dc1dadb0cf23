"""Decodes a column of keys or values: as bytes, text, JSON, or by Avro schemas.

Nothing is lost: a value that cannot be decoded is null in its column, and its bytes and the reason are in
columns of their own.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from stratalog.jobs.decoding.asked import Encoding, decoded_columns
from stratalog.jobs.decoding.framed import FramedDecoder, values_of
from stratalog.jobs.decoding.store import DEFAULT_CONTEXT, SchemaStore, StoredSchema
from stratalog.jobs.decoding.texts import decode_json, decode_utf8
from stratalog.jobs.decoding.undecoded import Undecoded
from stratalog.records.avro.decode import AvroDecoder
from stratalog.records.avro.schema import parse_schema
from stratalog.records.kernels.avro import ABSENT, OK


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How one column is decoded. It can be pickled and sent to tasks, and threads can share it.

    With Avro all values are written with `writer`. In Confluent's frame each value has the id of
    a schema in `store`.
    """

    encoding: Encoding = Encoding.BINARY
    reader: StoredSchema | None = None
    writer: StoredSchema | None = None
    reader_name: str | None = None  # the name by which the same reader schema is found again
    store: SchemaStore = field(default_factory=lambda: SchemaStore({}))
    context: str = DEFAULT_CONTEXT

    def __post_init__(self) -> None:
        assert self.encoding is not Encoding.AVRO or (self.reader and self.writer), "Avro has schemas"
        assert self.encoding is not Encoding.CONFLUENT or self.reader, "a frame has a reader schema"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_of_thread"}

    @property
    def is_binary(self) -> bool:
        """Whether bytes stay as they are."""
        return self.encoding is Encoding.BINARY

    @property
    def uses_registry(self) -> bool:
        """Whether its schemas come from a registry, which may get more of them later."""
        return self.encoding is Encoding.CONFLUENT and self.store.has_subjects

    @cached_property
    def type(self) -> pa.DataType:
        """The type of the decoded column; SchemaError if the reader schema cannot become one."""
        match self.encoding:
            case Encoding.BINARY:
                return pa.binary()
            case Encoding.AVRO:
                return self._avro[0].type
            case Encoding.CONFLUENT:
                return self._framed.type
        return pa.string()

    def fields(self, name: str) -> list[tuple[str, pa.DataType]]:
        """The columns that a column of this name becomes."""
        if self.is_binary:
            return [(name, pa.binary())]
        ids = [pa.int32()] if self.encoding is Encoding.CONFLUENT else []
        return list(
            zip(
                decoded_columns(name, self.encoding),
                [self.type, *ids, pa.binary(), pa.string()],
                strict=True,
            )
        )

    def decode(self, column: pa.Array) -> list[pa.Array]:
        """A column of bytes as the columns of `fields`."""
        match self.encoding:
            case Encoding.BINARY:
                return [column]
            case Encoding.UTF8:
                values, undecoded = decode_utf8(column)
            case Encoding.JSON:
                values, undecoded = decode_json(column)
            case Encoding.AVRO:
                values, undecoded = self._decode_avro(column)
            case Encoding.CONFLUENT:
                values, ids, undecoded = self._framed.decode(column)
                return [values, ids, *undecoded]
        return [values, *undecoded]

    def _decode_avro(self, column: pa.Array) -> tuple[pa.Array, Undecoded]:
        decoder, root = self._avro
        data, rows, codes = values_of(column)
        rows[:, 2] = root
        values = decoder.decode(data, rows, codes)
        failed = {
            row: decoder.reason(code) for row, code in enumerate(codes.tolist()) if code not in (OK, ABSENT)
        }
        return values, Undecoded.of(column, failed)

    @property
    def _framed(self) -> FramedDecoder:
        found = self._of_thread
        if not hasattr(found, "framed"):
            assert self.reader is not None
            found.framed = FramedDecoder(self.store, self.reader, self.context)
        made: FramedDecoder = found.framed
        return made

    @property
    def _avro(self) -> tuple[AvroDecoder, int]:
        """The decoder, and its program for the writer's schema."""
        found = self._of_thread
        if not hasattr(found, "avro"):
            assert self.reader is not None
            assert self.writer is not None
            decoder = AvroDecoder(parse_schema(self.reader.text))
            found.avro = decoder, decoder.root_of(parse_schema(self.writer.text))
        made: tuple[AvroDecoder, int] = found.avro
        return made

    @cached_property
    def _of_thread(self) -> threading.local:
        """The decoders, of which each thread has its own."""
        return threading.local()
