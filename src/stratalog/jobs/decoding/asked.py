"""How the caller wants keys and values to be decoded: an encoding, schemas, a reader schema.

This module reads no file and imports nothing heavy, because the options of a read are parsed with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from stratalog.errors import UsageError


class Encoding(Enum):
    """How the bytes of a key or a value are encoded."""

    BINARY = "binary"
    UTF8 = "utf8"
    JSON = "json"
    AVRO = "avro"
    CONFLUENT = "confluent"  # a zero byte and the id of a schema, then Avro or JSON


EncodingName = Literal["binary", "utf8", "json", "avro", "confluent", "confluent-avro"]
# An earlier name, from when only Avro was decoded.
_OTHER_NAMES = {"confluent-avro": Encoding.CONFLUENT}
ENCODING_NAMES = (*(each.value for each in Encoding), *_OTHER_NAMES)
WITH_SCHEMAS = frozenset({Encoding.AVRO, Encoding.CONFLUENT})
DECODED = ("key", "value")
_PARTS = ("Encoding", "Schema", "Reader")
DECODING_OPTIONS = tuple(f"{name}{part}" for name in DECODED for part in _PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedDecoding:
    """How the caller wants one column to be decoded.

    `schema` is where the writers' schemas are. For Avro: a file or the text itself. For Confluent's frame:
    files by id (`7=a.avsc,8=b.avsc`), a folder, or None for the topic of the schema registry. `reader` names
    the reader schema, to which all keys or values are converted; None means the newest schema, or for Avro
    the one in `schema`.
    """

    encoding: Encoding = Encoding.BINARY
    schema: str | None = None
    reader: str | None = None

    @classmethod
    def of(cls, name: str, option: Callable[[str], str | None]) -> AskedDecoding:
        """What the options of a read say about keys or values."""
        encoding, schema, reader = (option(f"{name}{part}") for part in _PARTS)
        known = Encoding.BINARY if encoding is None else encoding_named(encoding.strip().lower())
        return cls(encoding=known, schema=schema, reader=reader)

    def __post_init__(self) -> None:
        name = self.encoding.value
        if self.encoding is Encoding.AVRO and self.schema is None:
            raise UsageError(f"{name} needs a schema: give the schema file.")
        if self.encoding not in WITH_SCHEMAS and (self.schema or self.reader) is not None:
            raise UsageError(
                f"a schema is only for avro and confluent, and the encoding is {name}: leave the schema out."
            )


def encoding_named(name: str) -> Encoding:
    """The encoding of this name; UsageError lists the names."""
    known = {each.value: each for each in Encoding} | _OTHER_NAMES
    if name not in known:
        raise UsageError(f"{name} is not an encoding: use one of {', '.join(ENCODING_NAMES)}.")
    return known[name]


def decoded_columns(name: str, encoding: Encoding) -> tuple[str, ...]:
    """The columns that a key or value becomes: decoded, schema id if framed, undecoded bytes, reason."""
    if encoding is Encoding.BINARY:
        return (name,)
    title = name.capitalize()
    ids = (f"{name}SchemaId",) if encoding is Encoding.CONFLUENT else ()
    return name, *ids, f"undecoded{title}", f"undecoded{title}Reason"
