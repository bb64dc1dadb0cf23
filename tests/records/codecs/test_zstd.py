"""zstd: what Kafka 4.3.1 on JDK 17 reads in a stream, or that it refuses it."""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptCompressionError
from stratalog.records.compression import Codec, decompress
from tests.records.codecs.streams import ZSTD, check_verdict, verdicts_on


@pytest.mark.parametrize("name", verdicts_on(Codec.ZSTD))
def test_a_stream_is_read_or_refused_as_by_kafka(name: str) -> None:
    check_verdict(name)


def test_a_cut_second_zstd_frame_is_refused_though_zstd_jni_reads_on() -> None:
    for size in range(1, len(ZSTD)):
        with pytest.raises(CorruptCompressionError):
            decompress(Codec.ZSTD, ZSTD + ZSTD[:size])
