"""The default of a reader's field, as the bytes that a writer would have written for it."""

from __future__ import annotations

import struct
from typing import Any

from stratalog.errors import SchemaError
from stratalog.limits import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from stratalog.records.avro.schema import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    described,
)

_LIMITS = {"int": (INT32_MIN, INT32_MAX), "long": (INT64_MIN, INT64_MAX)}


def encode_default(kind: AvroType, default: Any) -> bytes:
    """A JSON default in Avro's binary form; SchemaError if it is not a value of this type."""
    match kind:
        case AvroPrimitive(name=name):
            return _primitive(name, default)
        case AvroFixed(size=size):
            raw = _latin(default)
            if raw is not None and len(raw) == size:
                return raw
        case AvroEnum(symbols=symbols) if default in symbols:
            return encode_long(symbols.index(default))
        case AvroArray(items=items) if isinstance(default, list):
            return _blocks([encode_default(items, each) for each in default])
        case AvroMap(values=values) if isinstance(default, dict):
            return _blocks([_text(key) + encode_default(values, each) for key, each in default.items()])
        case AvroRecord() if isinstance(default, dict):
            return b"".join(encode_default(each.type, _of_field(each, default)) for each in kind.fields)
        case AvroUnion(branches=branches):
            # The default is a value of the first branch; from Avro 1.12 on it may be a value of any branch.
            for number, branch in enumerate(branches):
                try:
                    return encode_long(number) + encode_default(branch, default)
                except SchemaError:
                    continue
    raise SchemaError(f"the default {default!r:.80} is not a value of the type {described(kind)}.")


def encode_long(number: int) -> bytes:
    """A number in zigzag form, seven bits a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _primitive(name: str, default: Any) -> bytes:
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if name == "null" and default is None:
        return b""
    if name == "boolean" and isinstance(default, bool):
        return b"\1" if default else b"\0"
    if name in _LIMITS and is_number and isinstance(default, int):
        low, high = _LIMITS[name]
        if low <= default <= high:
            return encode_long(default)
    if name in ("float", "double") and is_number:
        try:
            return struct.pack("<f" if name == "float" else "<d", default)
        except OverflowError:
            pass
    if name == "bytes" and (raw := _latin(default)) is not None:
        return encode_long(len(raw)) + raw
    if name == "string" and isinstance(default, str):
        return _text(default)
    raise SchemaError(f"the default {default!r:.80} is not a value of the type {name}.")


def _of_field(field: Any, default: dict[str, Any]) -> Any:
    """The field's part of a record's default, or its own default."""
    found = default.get(field.name, field.default)
    if found is NO_DEFAULT:
        raise SchemaError(f"the default of a record has no field {field.name}.")
    return found


def _text(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise SchemaError(
            f"the default {text!r:.80} has an unpaired surrogate in it, which is not a character."
        ) from None
    return encode_long(len(raw)) + raw


def _latin(default: Any) -> bytes | None:
    """Bytes from JSON text, in which the code of each character is one byte; None for anything else."""
    if not isinstance(default, str):
        return None
    try:
        return default.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _blocks(items: list[bytes]) -> bytes:
    if not items:
        return encode_long(0)
    return encode_long(len(items)) + b"".join(items) + encode_long(0)
