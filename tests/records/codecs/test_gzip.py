"""gzip: what Kafka 4.3.1 on JDK 17 reads in a stream, or that it refuses it."""

from __future__ import annotations

import zlib

import pytest

from stratalog.records.compression import Codec, compress
from tests.records.codecs.streams import GZIP, HELLO, check_verdict, verdicts_on


@pytest.mark.parametrize("name", verdicts_on(Codec.GZIP))
def test_a_stream_is_read_or_refused_as_by_kafka(name: str) -> None:
    check_verdict(name)


def test_gzip_is_written_with_javas_header_and_read_by_zlib() -> None:
    stream = compress(Codec.GZIP, HELLO)

    assert stream[:10] == GZIP[:10]
    assert zlib.decompress(stream, wbits=31) == HELLO
