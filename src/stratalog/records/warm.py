"""Compiles the kernels of readers and builders ahead of their first use, with a small batch of each kind."""

from __future__ import annotations

import numpy as np

from stratalog.records.avro.decode import AvroDecoder
from stratalog.records.avro.schema import parse_schema
from stratalog.records.batch import TimestampType, set_max_timestamp
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.columns import ALL_COLUMNS, ColumnReader
from stratalog.records.compression import Codec
from stratalog.records.few import MOST_RECORDS, build_one
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels import latest
from stratalog.records.kernels.hash import choose_partitions, hash_keys
from stratalog.records.kernels.jit import compile_always
from stratalog.records.kernels.lines import TEXT
from stratalog.records.kernels.walk import ascend, choose
from stratalog.records.lines import LineMaker
from stratalog.records.reader import read_batches
from stratalog.records.values import build_values
from stratalog.records.walk import new_table

# A v1 message that holds one gzipped v1 message: the smallest input for the code of old message sets.
OLD_SET = bytes.fromhex(
    "00000000000000000000003b9436720e01010000000000000001ffffffff000000251f8b080000000000020363608003f1e8"
    "c53a028c301ee37f2000d1650019e2cb0a23000000"
)


def warm() -> None:
    """Compile or load these kernels: takes seconds the first time, and a fraction of one from the cache.

    From then on, no kernel of this process runs as plain Python.
    """
    compile_always()
    # More than MOST_RECORDS, because so few are encoded without a kernel.
    records = [Record(offset, 2) for offset in range(MOST_RECORDS)]
    records.append(Record(MOST_RECORDS, 1, b"key", b"value", (("header", b"value"),)))
    build_one(1, None, b"value")
    build_values([b"value"], 1)
    reader = ColumnReader(columns=ALL_COLUMNS, made={"line": LineMaker([(TEXT, b"line")])})
    for codec in Codec:
        batch = bytearray(build_batch(records, BatchOptions(codec=codec)))
        set_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, 3)
        for _ in reader.read(batch):
            pass
        for read in read_batches(batch):
            list(read)
    for _ in reader.read(OLD_SET):
        pass
    schema = parse_schema('"string"')
    decoder = AvroDecoder(schema)
    values = np.array([[0, 1, decoder.root_of(schema)]], np.int64)
    decoder.decode(np.zeros(1, np.uint8), values, np.zeros(1, np.int32))
    rows = np.zeros(1, decoding.RECORD)
    hashes = np.zeros((1, 2), np.uint64)
    hash_keys(np.zeros(8, np.uint8), rows, np.uint64(1), np.uint64(2), hashes)
    slots, state = np.zeros(6, np.uint64), np.zeros(2, np.int64)
    latest.put_newest(slots, 1, state, rows, hashes, 0)
    latest.move_entries(slots, np.zeros(6, np.uint64))
    latest.stored_offsets(slots, np.zeros(1, np.int64))
    latest.mark_stored(rows, np.zeros(1, np.int64), True, np.zeros(1, np.bool_), np.zeros(1, np.bool_))
    batches = new_table(1)
    choose(batches, 0, 0, False, np.zeros(1, np.bool_))
    ascend(batches, 0)
    choose_partitions(
        np.zeros(8, np.uint8), np.zeros(2, np.int32), np.ones(1, np.bool_), 1, np.zeros(1, np.int32)
    )
