"""snappy: what Kafka 4.3.1 on JDK 17 reads in a stream, or that it refuses it."""

from __future__ import annotations

import pytest

from stratalog.records.compression import Codec
from tests.records.codecs.streams import check_verdict, verdicts_on


@pytest.mark.parametrize("name", verdicts_on(Codec.SNAPPY))
def test_a_stream_is_read_or_refused_as_by_kafka(name: str) -> None:
    check_verdict(name)
