"""How fast are batches decoded, to Arrow columns and to Python values, with checksums verified?

Records with a 16-byte key and a 100-byte JSON-like value, in 16 KiB batches, become columns of keys, values,
offsets and timestamps. The rival is aiokafka's compiled reader, which creates a Python object for each
record; the benchmark does not read these objects. The rival also checks the CRC, as aiokafka's consumer does
by default. The least work possible is one pass over the bytes for the CRC, one for the varints and one copy
of keys and values. With compression, the work of the codec is added to that.

`iterate`: a loop `for record in log.records()` over an open log, which looks at offset, key, value and
timestamp. The rival is kafka-python's own reader over the same bytes in memory, with the `crc32c` package.
The limit is Python's: a tuple of 13 fields, two bytes objects and the loop of the caller. `iterate_small` is
the same with one record in each batch.

`to_arrow`: an open log to one Arrow table, with all columns of Spark's Kafka source. The limit is decoding
alone, without a log: `records.columns.read_columns` over the same bytes in memory.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords

import stratalog
from benchmarks.rounds import Rounds
from stratalog.records.build import BatchOptions, build_batches
from stratalog.records.columns import ColumnReader, read_columns
from stratalog.records.compression import Codec

RECORDS = 1_000_000
COLUMNS = ("key", "value", "offset", "timestamp")


def records(count: int) -> pa.Table:
    """Keys and values from a fixed seed; the values compress about 3.5 times with zstd, as JSON does."""
    rng = random.Random(1)
    value = [_value(rng, i) for i in range(count)]
    return pa.table(
        {
            "key": [rng.randbytes(16) for _ in range(count)],
            "value": value,
            "timestamp": pa.array([1_700_000_000_000 + i for i in range(count)], pa.timestamp("ms")),
        }
    )


def _value(rng: random.Random, i: int) -> bytes:
    fields = {
        "id": i,
        "user": f"user-{rng.randrange(10_000)}",
        "amount": rng.randrange(10**6) / 100,
        "page": "home",
    }
    return json.dumps(fields).encode().ljust(100)[:100]


def decode(data: bytes) -> int:
    return sum(batch.num_rows for batch in ColumnReader(columns=COLUMNS).read(data))


def rival(batches: list[bytes]) -> int:
    count = 0
    for batch in batches:
        reader = DefaultRecordBatch(batch)
        assert reader.validate_crc()
        for _record in reader:
            count += 1
    return count


def iterate(log: stratalog.PartitionLog) -> int:
    count = 0
    for record in log.records():
        _ = record.offset, record.key, record.value, record.timestamp
        count += 1
    return count


def iterate_with_kafka_python(data: bytes) -> int:
    count = 0
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        for record in batch:
            _ = record.offset, record.key, record.value, record.timestamp
            count += 1
    return count


def compare_iteration(rounds: Rounds, table: pa.Table) -> None:
    root = Path(tempfile.mkdtemp(prefix="stratalog-decode-"))
    try:
        for figure, part, batch_size in (
            ("iterate", table.slice(0, table.num_rows // 4), 16 << 10),
            ("iterate_small", table.slice(0, table.num_rows // 10), 1),
        ):
            options = BatchOptions(partition_leader_epoch=0)
            batches = b"".join(build_batches(part, options, batch_size=batch_size))
            with stratalog.open_log(root / f"{figure}-0", create=True) as log:
                log.append_batch(batches, keep_offsets=True)
                assert iterate(log) == iterate_with_kafka_python(batches) == part.num_rows
                rounds.compare(
                    figure,
                    ours=partial(iterate, log),
                    rival=partial(iterate_with_kafka_python, batches),
                    floor=6,
                    work="records",
                    amount=part.num_rows,
                )
    finally:
        shutil.rmtree(root)


def compare_to_arrow(rounds: Rounds, table: pa.Table) -> None:
    data = b"".join(build_batches(table, BatchOptions(partition_leader_epoch=0), batch_size=16 << 10))
    root = Path(tempfile.mkdtemp(prefix="stratalog-decode-"))
    try:
        with stratalog.open_log(root / "rows-0", create=True) as log:
            log.append_batch(data, keep_offsets=True)
            rival = partial(to_table, data)
            assert log.to_arrow().equals(rival())
            rounds.compare(
                "to_arrow", ours=log.to_arrow, rival=rival, floor=0.8, work="records", amount=table.num_rows
            )
    finally:
        shutil.rmtree(root)


def to_table(data: bytes) -> pa.Table:
    return pa.Table.from_batches(read_columns(data, topic="rows", partition=0))


def main() -> None:
    rounds = Rounds(__doc__ or "")
    count = int(RECORDS * rounds.scale)
    table = records(count)
    for figure, codec, floor in (
        ("decode_none", Codec.NONE, 4.0),
        ("decode_zstd", Codec.ZSTD, 1.6),
        ("decode_lz4", Codec.LZ4, 1.8),
        ("decode_snappy", Codec.SNAPPY, 1.0),
        ("decode_gzip", Codec.GZIP, 1.0),
    ):
        batches = list(build_batches(table, BatchOptions(codec=codec), batch_size=16 << 10))
        data = b"".join(batches)
        assert decode(data) == rival(batches) == count
        rounds.compare(
            figure,
            ours=partial(decode, data),
            rival=partial(rival, batches),
            floor=floor,
            work="records",
            amount=count,
        )
    compare_iteration(rounds, table)
    compare_to_arrow(rounds, table)
    rounds.end()


if __name__ == "__main__":
    main()
