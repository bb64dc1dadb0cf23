"""A decoded message as the JSON text that Kafka's own tools print.

Kafka's generated converters make a tree of Jackson nodes and print it without spaces. The particular rules:
tagged fields at their default are left out, as are unknown tags; bytes are base64; a uuid is its text;
control characters are escaped with capital hex digits; a double is written as Java writes it.

Kafka: JsonConverterGenerator.java; Jackson: JsonStringEncoder, BinaryNode, DoubleNode.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping

from stratalog.records.internal.schema import Field, Schema, default_of
from stratalog.records.internal.wire import FieldValue

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


class RawJson(str):
    """Text that is already JSON, which a tool prints instead of a field's own value."""

    __slots__ = ()


def to_json(schema: Schema, version: int, values: Mapping[str, FieldValue]) -> str:
    """What `<schema>JsonConverter.write(message, version).toString()` gives in Kafka."""
    return _struct_text(schema.fields, version, values)


def json_string(text: str) -> str:
    """A quoted string as Jackson writes it: only what JSON demands is escaped."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def java_double(value: float) -> str:
    """A double as Double.toString writes it.

    It is in plain notation from 0.001 up to 10^7, and in scientific notation outside of that. The digits are
    the shortest that read back as the same number. Java before 19 sometimes wrote one more.
    """
    if not math.isfinite(value):
        # JSON has no number for these, so Jackson writes them in quotes.
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    texts = (f"{value:.{precision}e}" for precision in range(1, 17))
    mantissa, _, exponent = next(text for text in texts if float(text) == value).partition("e")
    return f"{mantissa}E{int(exponent)}"


def _struct_text(fields: tuple[Field, ...], version: int, values: Mapping[str, FieldValue]) -> str:
    parts = []
    for field in fields:
        if version not in field.versions:
            continue
        value = values[field.name]
        if version in field.tagged and value == default_of(field, version):
            continue
        parts.append(f"{json_string(field.name)}:{_value_text(field, version, value)}")
    return "{" + ",".join(parts) + "}"


def _value_text(field: Field, version: int, value: FieldValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, RawJson):
        return value
    if field.kind.startswith("[]"):
        return "[" + ",".join(_element_text(field, version, element) for element in value) + "]"
    return _element_text(field, version, value)


def _element_text(field: Field, version: int, value: FieldValue) -> str:
    match value:
        case dict():
            return _struct_text(field.fields, version, value)
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case int():
            return str(value)
        case bytes():
            return json_string(base64.b64encode(value).decode("ascii"))
        case _:
            return json_string(value)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT_ESCAPES.get(character, f"\\u{ord(character):04X}")
