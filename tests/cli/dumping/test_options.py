"""The options of a dump."""

from __future__ import annotations

import pytest

from stratalog.cli.dumping.options import Decoder, DumpOptions, FieldDecoder


@pytest.mark.parametrize(
    ("options", "decodes"),
    [
        (DumpOptions(), False),
        (DumpOptions(deep=True, print_data=True), False),
        (DumpOptions(decoder=Decoder.OFFSETS), True),
        (DumpOptions(key_decoder=FieldDecoder.LONG), True),
        (DumpOptions(value_decoder=FieldDecoder.DEFAULT), True),
    ],
)
def test_anything_but_plain_text_needs_a_decoder(options: DumpOptions, decodes: bool) -> None:
    assert options.decodes is decodes


def test_a_decoder_is_called_by_the_topic_whose_records_it_reads() -> None:
    # TransactionLogMessageParser, OffsetsMessageParser and their like in Kafka's DumpLogSegments.
    assert {decoder.value for decoder in Decoder} == {
        "",
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
