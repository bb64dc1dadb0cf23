"""The primitive types of Kafka's messages.

A reader takes a buffer and a position, and returns the value and the next position. A writer appends a value
to a bytearray.

type                    plain form                       compact form (flexible versions)
bool int8 .. float64    big endian, 1 to 8 bytes         the same
uuid                    16 bytes                         the same
string                  int16 length, UTF-8              unsigned varint of length + 1, UTF-8
bytes, records          int32 length, bytes              unsigned varint of length + 1, bytes
array                   int32 count, elements            unsigned varint of count + 1, elements

A null string, bytes or array has length -1, which is the varint 0 in the compact form.

Every length is checked against the remaining bytes before it is used, so no reader allocates more than the
size of its buffer. For any bytes, and for any value of the right type, the only error is InvalidRecordError.

Kafka: ByteBufferAccessor.java, ByteUtils.java
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

from stratalog.buffers import Buffer
from stratalog.errors import InvalidRecordError
from stratalog.limits import INT16_MAX, INT32_MAX
from stratalog.records.utf8 import decode_text

# What a message holds: int, float, bool, str, bytes, None, and lists and dicts of these.
FieldValue = Any
Reader = Callable[[Buffer, int], tuple[FieldValue, int]]
Writer = Callable[[bytearray, FieldValue], None]

STRING_MAX = INT16_MAX
NULL = -1
_UUID_SIZE = 16


def _fixed(layout: struct.Struct, name: str) -> Reader:
    def read(buffer: Buffer, position: int) -> tuple[FieldValue, int]:
        end = position + layout.size
        if end > len(buffer):
            raise InvalidRecordError(
                f"{name} needs {layout.size} bytes, but {len(buffer) - position} are left", position=position
            )
        return layout.unpack_from(buffer, position)[0], end

    return read


read_int8 = _fixed(struct.Struct(">b"), "int8")
read_int16 = _fixed(struct.Struct(">h"), "int16")
read_int32 = _fixed(struct.Struct(">i"), "int32")
_read_uuid_bytes = _fixed(struct.Struct(">16s"), "uuid")


def read_uuid(buffer: Buffer, position: int) -> tuple[str, int]:
    """A uuid as Kafka prints it everywhere, also in partition.metadata: 22 characters of base64url."""
    raw, position = _read_uuid_bytes(buffer, position)
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii"), position


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A number of 0 to 2^31 - 1, seven bits a byte, the lowest first."""
    value = 0
    for index in range(5):
        if position + index >= len(buffer):
            raise InvalidRecordError("the bytes end inside a varint", position=position)
        byte = buffer[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > INT32_MAX:
                raise InvalidRecordError(f"varint {value} is not a length, tag or count", position=position)
            return value, position + index + 1
    raise InvalidRecordError("varint is longer than 5 bytes", position=position)


def read_compact_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """A length or count in the compact form; NULL for null."""
    value, position = read_unsigned_varint(buffer, position)
    return value - 1, position


def read_slice(buffer: Buffer, position: int, size: int) -> tuple[bytes, int]:
    if size > len(buffer) - position:
        raise InvalidRecordError(
            f"{size} bytes are announced, but {len(buffer) - position} are left", position=position
        )
    return bytes(buffer[position : position + size]), position + size


def string_reader(*, compact: bool, nullable: bool) -> Reader:
    read_length = read_compact_length if compact else read_int16

    def read(buffer: Buffer, position: int) -> tuple[str | None, int]:
        size, start = read_length(buffer, position)
        if size < 0:
            _check_nullable("a string", nullable, position)
            return None, start
        if size > STRING_MAX:
            raise InvalidRecordError(
                f"a string of {size} bytes, but at most {STRING_MAX} are allowed", position=position
            )
        raw, end = read_slice(buffer, start, size)
        return decode_text(raw), end

    return read


def bytes_reader(*, compact: bool, nullable: bool) -> Reader:
    read_length = read_compact_length if compact else read_int32

    def read(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
        size, start = read_length(buffer, position)
        if size < 0:
            _check_nullable("bytes", nullable, position)
            return None, start
        return read_slice(buffer, start, size)

    return read


def array_reader(element: Reader, *, compact: bool, nullable: bool) -> Reader:
    read_count = read_compact_length if compact else read_int32

    def read(buffer: Buffer, position: int) -> tuple[list[FieldValue] | None, int]:
        count, end = read_count(buffer, position)
        if count < 0:
            _check_nullable("an array", nullable, position)
            return None, end
        # Every element has at least one byte, except a struct without fields; Kafka, too, refuses more of
        # those than there are bytes.
        if count > len(buffer) - end:
            raise InvalidRecordError(
                f"an array of {count} elements, but {len(buffer) - end} bytes are left", position=position
            )
        values = []
        for _ in range(count):
            value, end = element(buffer, end)
            values.append(value)
        return values, end

    return read


def _check_nullable(what: str, nullable: bool, position: int = 0) -> None:
    if not nullable:
        raise InvalidRecordError(f"null instead of {what}", position=position)


def _read_bool(buffer: Buffer, position: int) -> tuple[bool, int]:
    value, position = read_int8(buffer, position)
    return value != 0, position


FIXED_READERS: dict[str, Reader] = {
    "bool": _read_bool,
    "int8": read_int8,
    "int16": read_int16,
    "uint16": _fixed(struct.Struct(">H"), "uint16"),
    "int32": read_int32,
    "uint32": _fixed(struct.Struct(">I"), "uint32"),
    "int64": _fixed(struct.Struct(">q"), "int64"),
    "float64": _fixed(struct.Struct(">d"), "float64"),
    "uuid": read_uuid,
}


def _fixed_writer(layout: struct.Struct, name: str) -> Writer:
    def write(out: bytearray, value: FieldValue) -> None:
        try:
            out += layout.pack(value)
        except struct.error as error:
            raise InvalidRecordError(f"{value!r} is not a value of {name}") from error

    return write


write_int8 = _fixed_writer(struct.Struct(">b"), "int8")
write_int16 = _fixed_writer(struct.Struct(">h"), "int16")
write_int32 = _fixed_writer(struct.Struct(">i"), "int32")


def write_uuid(out: bytearray, text: str) -> None:
    """A uuid from its 22 characters."""
    try:
        raw = base64.b64decode(f"{text}==", altchars=b"-_", validate=True)
    except ValueError as error:
        raise InvalidRecordError(f"{text!r} is not a uuid in base64") from error
    if len(raw) != _UUID_SIZE:
        raise InvalidRecordError(f"{text!r} is not a uuid in base64: it has {len(raw)} bytes")
    out += raw


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """A number of 0 to 2^31 - 1, seven bits a byte, the lowest first."""
    if not 0 <= value <= INT32_MAX:
        raise InvalidRecordError(f"{value} is not a length, tag or count")
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_compact_length(out: bytearray, length: int) -> None:
    """A length or count in the compact form; NULL for null."""
    write_unsigned_varint(out, length + 1)


def string_writer(*, compact: bool, nullable: bool) -> Writer:
    write_length = write_compact_length if compact else write_int16

    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            _check_nullable("a string", nullable)
            write_length(out, NULL)
            return
        # Half a surrogate pair becomes `?`, as in Java.
        raw = value.encode("utf-8", "replace")
        if len(raw) > STRING_MAX:
            raise InvalidRecordError(f"a string of {len(raw)} bytes, but at most {STRING_MAX} are allowed")
        write_length(out, len(raw))
        out += raw

    return write


def bytes_writer(*, compact: bool, nullable: bool) -> Writer:
    write_length = write_compact_length if compact else write_int32

    def write(out: bytearray, value: bytes | None) -> None:
        if value is None:
            _check_nullable("bytes", nullable)
            write_length(out, NULL)
            return
        write_length(out, len(value))
        out += value

    return write


def array_writer(element: Writer, *, compact: bool, nullable: bool) -> Writer:
    write_count = write_compact_length if compact else write_int32

    def write(out: bytearray, values: list[FieldValue] | None) -> None:
        if values is None:
            _check_nullable("an array", nullable)
            write_count(out, NULL)
            return
        write_count(out, len(values))
        for value in values:
            element(out, value)

    return write


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


FIXED_WRITERS: dict[str, Writer] = {
    "bool": _write_bool,
    "int8": write_int8,
    "int16": write_int16,
    "uint16": _fixed_writer(struct.Struct(">H"), "uint16"),
    "int32": write_int32,
    "uint32": _fixed_writer(struct.Struct(">I"), "uint32"),
    "int64": _fixed_writer(struct.Struct(">q"), "int64"),
    "float64": _fixed_writer(struct.Struct(">d"), "float64"),
    "uuid": write_uuid,
}
