"""50 million keys in a broker's directory: compacted on Spark as by the cleaner, and a broker serves them.

The cleaner's offset map has its default size here, so the cleaner needs several passes; Spark needs one.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from numpy.typing import NDArray

from stratalog import open_log
from stratalog.config import ServerConfig
from stratalog.config.server import read_server_properties
from stratalog.operations.compact import compact
from stratalog.operations.work_report import Cleaned
from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session
from tests.fixtures.records import consumer
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic
from tests.kafka.conftest import MakeBroker
from tests.waiting import until

TOPIC = "many"
KEYS = 50_000_000
RECORDS = KEYS + KEYS // 10
CHUNK = 1_000_000
CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(256 << 20)}
KEPT = ["offset", "key", "value"]


@pytest.mark.deep
def test_fifty_million_keys_need_one_pass_on_spark_and_leave_the_records_of_the_cleaner(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(properties={"log.cleaner.enable": "false"})
    create_topic(broker.bootstrap, TOPIC, config=CONFIG)
    broker.stop()
    write(broker.log_dir / f"{TOPIC}-0")
    broker.start()  # the leader moves its high watermark to the end
    until(lambda: end_of(broker) == RECORDS)
    broker.stop()
    there = shutil.copytree(broker.log_dir, tmp_path / "there")

    server = read_server_properties(broker.write_config().read_text())
    by_cleaner = compacted(broker.log_dir, server, None)
    with session("tests", master="local[2]") as spark:
        by_spark = compacted(there, server, SparkEngine(spark))

    assert (by_spark.passes, by_spark.end_offset) == (1, by_cleaner.end_offset)
    assert by_cleaner.passes > 5
    assert by_spark.records_read == by_spark.end_offset
    expected = digest_of(arrow_chunks(broker.log_dir / f"{TOPIC}-0"))
    assert digest_of(arrow_chunks(there / f"{TOPIC}-0")) == expected
    shutil.rmtree(broker.log_dir)
    shutil.move(there, broker.log_dir)
    broker.start()
    assert digest_of(served(broker)) == expected


def write(directory: Path) -> None:
    """Each key once, then a tenth of them again: keys of 16 hex digits, small values."""
    digits, shifts = np.frombuffer(b"0123456789abcdef", np.uint8), np.arange(60, -4, -4)
    with open_log(directory, config=CONFIG) as log:
        for first in range(0, RECORDS, CHUNK):
            numbers = np.arange(first, min(first + CHUNK, RECORDS))
            keys = digits[((numbers % KEYS)[:, None] >> shifts) & 15].reshape(-1)
            columns = {"key": of_width(16, keys), "value": of_width(8, numbers.view(np.uint8))}
            log.append_arrow(pa.table(columns))


def of_width(width: int, data: NDArray[np.uint8]) -> pa.Array:
    ends = np.arange(len(data) // width + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def compacted(directory: Path, server: ServerConfig, engine: SparkEngine | None) -> Cleaned:
    report = compact([directory], topics=[TOPIC], server=server, engine=engine)
    (cleaned,) = [each.cleaned for each in report.partitions if each.cleaned is not None]
    return cleaned


def arrow_chunks(directory: Path) -> Iterator[pa.RecordBatch]:
    with open_log(directory, read_only=True) as log:
        yield from log.arrow_batches(KEPT)


def end_of(broker: Broker) -> int:
    client = consumer(broker.bootstrap, TOPIC)
    _, end = client.get_watermark_offsets(TopicPartition(TOPIC, 0))
    client.close()
    return int(end)


def served(broker: Broker) -> Iterator[pa.RecordBatch]:
    """All records that a consumer gets."""
    client = consumer(broker.bootstrap, TOPIC, **{"fetch.message.max.bytes": 10 << 20})
    client.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    position = 0
    while position < RECORDS:
        messages = client.consume(100_000, timeout=1.0)  # fewer if no more come within a second
        if not messages:
            continue
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        columns = [[each.offset(), each.key(), each.value()] for each in messages]
        offsets, keys, values = zip(*columns, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(offsets), pa.array(keys, pa.binary()), pa.array(values, pa.binary())], KEPT
        )
        position = offsets[-1] + 1
    client.close()


def digest_of(chunks: Iterator[pa.RecordBatch]) -> tuple[int, str]:
    """How many records, and a digest that does not depend on how they are cut into chunks."""
    count, digests = 0, [hashlib.sha256() for _ in KEPT]
    for chunk in chunks:
        count += chunk.num_rows
        digests[0].update(np.ascontiguousarray(chunk.column("offset").to_numpy()).tobytes())
        for digest, name in zip(digests[1:], KEPT[1:], strict=True):
            column = chunk.column(name)
            assert column.null_count == 0
            digest.update(b"".join(column.to_pylist()))
    return count, " ".join(digest.hexdigest() for digest in digests)
