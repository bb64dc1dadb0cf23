"""Decodes keys and values for an export: as bytes, text, JSON, or the columns of an Avro schema.

Nothing is lost: a value that cannot be decoded is null in its column, and its bytes are in a second column.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa

from stratalog.errors import UsageError
from stratalog.jobs.exporting.avro import arrow_type, value_decoder


class Encoding(Enum):
    """How the bytes of a key or a value are encoded."""

    BINARY = "binary"
    UTF8 = "utf8"
    JSON = "json"
    AVRO = "avro"
    CONFLUENT_AVRO = "confluent-avro"


AVRO_ENCODINGS = frozenset({Encoding.AVRO, Encoding.CONFLUENT_AVRO})
# Confluent's serializers write a zero byte and the schema's number before the value.
CONFLUENT_PREFIX_SIZE = 5
# What Arrow raises for a number that is too large for its type, or a decimal with too many digits.
_DOES_NOT_FIT = (pa.ArrowInvalid, OverflowError)


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How one column is decoded; `schema` is the text of an Avro schema."""

    encoding: Encoding = Encoding.BINARY
    schema: str | None = None

    def __post_init__(self) -> None:
        if self.encoding in AVRO_ENCODINGS and self.schema is None:
            raise UsageError(f"{self.encoding.value} needs a schema: give the schema file.")
        if self.encoding not in AVRO_ENCODINGS and self.schema is not None:
            raise UsageError(
                f"a schema is only for Avro, and the encoding is {self.encoding.value}: leave the schema out."
            )

    @cached_property
    def type(self) -> pa.DataType:
        """The type of the decoded column."""
        if self.encoding is Encoding.BINARY:
            return pa.binary()
        return pa.string() if self.schema is None else arrow_type(self.schema)

    def check(self) -> None:
        """Raise what decoding would raise: UsageError for a wrong schema, MissingDependencyError."""
        if self.encoding is not Encoding.BINARY:
            assert self.type is not None
            assert self._decode is not None

    @cached_property
    def _decode(self) -> Callable[[bytes], object]:
        if self.encoding is Encoding.UTF8:
            return lambda raw: raw.decode("utf-8")
        if self.encoding is Encoding.JSON:
            return _json_text
        assert self.schema is not None
        decode = value_decoder(self.schema)
        return decode if self.encoding is Encoding.AVRO else lambda raw: decode(_unframed(raw))

    def decode(self, column: pa.Array) -> tuple[pa.Array, pa.Array]:
        """(the decoded column, a column with the bytes of the values that could not be decoded)."""
        if self.encoding is Encoding.UTF8:
            try:
                return column.cast(pa.string()), pa.nulls(len(column), pa.binary())
            except pa.ArrowInvalid:
                pass  # decode one by one, to find the values that are not text
        every = column.to_pylist()
        decoded: list[object] = []
        undecoded: list[bytes | None] = []
        for raw in every:
            try:
                decoded.append(None if raw is None else self._decode(raw))
                undecoded.append(None)
            except ValueError:
                decoded.append(None)
                undecoded.append(raw)
        try:
            return pa.array(decoded, self.type), pa.array(undecoded, pa.binary())
        except _DOES_NOT_FIT:  # as above
            for number, value in enumerate(decoded):
                if not _fits(value, self.type):
                    decoded[number], undecoded[number] = None, every[number]
        return pa.array(decoded, self.type), pa.array(undecoded, pa.binary())


def _fits(value: object, kind: pa.DataType) -> bool:
    """Whether Arrow can hold a decoded value: bytes can encode a number that is too large for its type."""
    try:
        pa.array([value], kind)
    except _DOES_NOT_FIT:
        return False
    return True


def _json_text(raw: bytes) -> str:
    text = raw.decode("utf-8")
    try:
        # Python's parser differs from JSON: it accepts NaN, and refuses integers with very many digits.
        json.loads(text, parse_constant=_no_number, parse_int=str)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return text


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _unframed(raw: bytes) -> bytes:
    if len(raw) < CONFLUENT_PREFIX_SIZE or raw[0] != 0:
        raise ValueError("no schema number before the value")
    return raw[CONFLUENT_PREFIX_SIZE:]
