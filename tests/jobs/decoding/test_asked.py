"""What can be asked for: encodings, and which of them have schemas."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.jobs.decoding.asked import AskedDecoding, Encoding, decoded_columns, encoding_named


def test_avro_needs_a_schema_and_text_has_none() -> None:
    with pytest.raises(UsageError, match="avro needs a schema"):
        AskedDecoding(encoding=Encoding.AVRO)
    with pytest.raises(UsageError, match="the encoding is json"):
        AskedDecoding(encoding=Encoding.JSON, schema="{}")
    with pytest.raises(UsageError, match="the encoding is binary"):
        AskedDecoding(reader="8")
    assert AskedDecoding(encoding=Encoding.CONFLUENT).schema is None


def test_an_encoding_has_its_name_and_the_frame_an_older_one() -> None:
    assert encoding_named("utf8") is Encoding.UTF8
    assert encoding_named("confluent-avro") is encoding_named("confluent") is Encoding.CONFLUENT
    with pytest.raises(
        UsageError, match="utf-8 is not an encoding: use one of binary, utf8, json, avro, conf"
    ):
        encoding_named("utf-8")


@pytest.mark.parametrize(
    ("encoding", "columns"),
    [
        (Encoding.BINARY, ("key",)),
        (Encoding.UTF8, ("key", "undecodedKey", "undecodedKeyReason")),
        (Encoding.CONFLUENT, ("key", "keySchemaId", "undecodedKey", "undecodedKeyReason")),
    ],
)
def test_a_decoded_key_has_columns_beside_it(encoding: Encoding, columns: tuple[str, ...]) -> None:
    assert decoded_columns("key", encoding) == columns
