"""What is said of a compressed stream that cannot be read."""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptCompressionError, RecordTooLargeError
from stratalog.records.compression import Codec, compress, decompress
from tests.records.codecs.streams import HELLO, HELLO_BY_KAFKA

COMPRESSED = list(HELLO_BY_KAFKA)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_stream_that_is_cut_is_named_by_its_codec(codec: Codec) -> None:
    with pytest.raises(CorruptCompressionError, match=f"{codec.kafka_name} stream .*cannot be read"):
        decompress(codec, HELLO_BY_KAFKA[codec][:-1])


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_stream_above_the_limit_says_its_codec_and_the_limit(codec: Codec) -> None:
    stream = compress(codec, HELLO * 1000)

    with pytest.raises(RecordTooLargeError, match=f"{codec.kafka_name} stream .*the limit is 1000[.]"):
        decompress(codec, stream, limit=1000)
