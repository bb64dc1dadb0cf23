"""lz4: what Kafka 4.3.1 on JDK 17 reads in a stream, or that it refuses it."""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptCompressionError
from stratalog.records.compression import Codec, decompress
from tests.records.codecs.streams import HELLO, LZ4_BLOCKS, check_verdict, verdicts_on


@pytest.mark.parametrize("name", verdicts_on(Codec.LZ4))
def test_a_stream_is_read_or_refused_as_by_kafka(name: str) -> None:
    check_verdict(name)


@pytest.mark.parametrize("header", ["04224d18604082", "04224d1860401a", "04224d18604000"])
def test_the_lz4_header_checksum_counts_from_magic_1_on(header: str) -> None:
    stream = bytes.fromhex(header) + LZ4_BLOCKS
    right = header.endswith("82")

    assert decompress(Codec.LZ4, stream, magic=0) == HELLO
    for magic in (1, 2):
        if right:
            assert decompress(Codec.LZ4, stream, magic=magic) == HELLO
        else:
            with pytest.raises(CorruptCompressionError, match="checksum"):
                decompress(Codec.LZ4, stream, magic=magic)
