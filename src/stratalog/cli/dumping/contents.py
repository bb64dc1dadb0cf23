"""The text after the metadata of a record, if it is a control record or a decoder is used.

Kafka: DumpLogSegments.printControlRecord, printRecordContents, and its message parsers
"""

from __future__ import annotations

from collections.abc import Callable

from stratalog.cli.dumping.options import Decoder, DumpOptions, FieldDecoder
from stratalog.errors import InvalidRecordError
from stratalog.records.control import ControlType, EndTxnMarker, parse_control_key
from stratalog.records.kernels.memory import Bytes
from stratalog.records.utf8 import decode_text


def bytes_at(data: Bytes, position: int, size: int) -> bytes | None:
    """A key or value; None for a size below zero, which means null."""
    return data[position : position + size].tobytes() if size >= 0 else None


def control_text(key: bytes | None, value: bytes | None) -> str:
    """The text of a control record; InvalidRecordError if it cannot be read."""
    _, control_type = parse_control_key(key)
    if control_type in (ControlType.ABORT, ControlType.COMMIT):
        marker = EndTxnMarker.parse(key, value)
        return f"endTxnMarker: {marker.control_type.name} coordinatorEpoch: {marker.coordinator_epoch}"
    # Imported here: its table of schemas takes a while to load, and few dumps need it.
    from stratalog.records.internal import control_contents

    return control_contents(key, value) or f"controlType: UNKNOWN({int(control_type)})"


class ContentsWriter:
    """Writes the end of the lines that the kernels leave unfinished."""

    def __init__(self, options: DumpOptions) -> None:
        self._options = options
        self._prefix = "| " if options.skip_record_metadata else " "

    def added(self, is_control: bool, offset: int, key: bytes | None, value: bytes | None) -> str:
        """The text after the metadata of a record; InvalidRecordError if Kafka's tool would stop."""
        if is_control:
            return "" if self._options.skip_record_metadata else f" {control_text(key, value)}"
        if not self._options.print_data:
            return ""
        key_text, payload = decoded(self._options, offset, key, value)
        parts = []
        if key_text is not None:
            parts.append(f"key: {key_text}")
        if payload is not None:
            parts.append(f"payload: {payload}")
        return self._prefix + " ".join(parts) if parts else ""


def decoded(
    options: DumpOptions, offset: int, key: bytes | None, value: bytes | None
) -> tuple[str | None, str | None]:
    """The texts of key and payload; None if nothing is printed, not even the label."""
    if options.decoder is Decoder.REMOTE_LOG_METADATA:
        from stratalog.cli.dumping.remote_log import remote_log_text

        return None, remote_log_text(offset, value)
    if options.decoder is not Decoder.TEXT:
        from stratalog.records.internal import record_contents

        return record_contents(options.decoder.value, offset, key, value)
    return (
        None if key is None else _FIELDS[options.key_decoder](key),
        None if value is None else _FIELDS[options.value_decoder](value),
    )


def _number(size: int, name: str) -> Callable[[bytes], str]:
    def decode(raw: bytes) -> str:
        if len(raw) < size:
            raise InvalidRecordError(f"{len(raw)} bytes are too few for type {name}, which has {size}.")
        return str(int.from_bytes(raw[:size], "big", signed=True))

    return decode


_FIELDS: dict[FieldDecoder, Callable[[bytes], str]] = {
    FieldDecoder.STRING: decode_text,
    FieldDecoder.INTEGER: _number(4, "integer"),
    FieldDecoder.LONG: _number(8, "long"),
    # Kafka's tool prints Java's name for the array, such as [B@1b2c3d; the bytes in hex are more useful.
    FieldDecoder.DEFAULT: lambda raw: f"0x{raw.hex()}",
}
