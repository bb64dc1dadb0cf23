from __future__ import annotations

import pytest

from stratalog.records.internal.json_text import java_double, json_string, to_json
from stratalog.records.internal.schema import decode_message, schema_named
from tests.records.internal.vectors import messages


def test_every_message_is_the_json_of_kafkas_converters() -> None:
    for message in messages():
        schema = schema_named(message.schema)
        values, _ = decode_message(schema, message.version, message.raw)

        assert to_json(schema, message.version, values) == message.json, (message.schema, message.version)


# What Java's Double.toString documents, and Jackson's quoted words for what JSON has no number for.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"),
        (9999999.5, "9999999.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-0.0, "-0.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_control_characters_have_capital_hex_digits() -> None:
    assert json_string('\x1f"\\\n\x7fü') == '"\\u001F\\"\\\\\\n\x7fü"'
