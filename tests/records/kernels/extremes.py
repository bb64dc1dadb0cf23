"""Logs whose headers hold the smallest and largest numbers, and what reads and appends them.

`python -m tests.records.kernels.extremes COUNT` runs kernels in both of their forms over such logs and prints
which ones were compared.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from stratalog.errors import StratalogError
from stratalog.files.disk import Disk
from stratalog.limits import INT16_MAX, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.columns import ALL_COLUMNS, read_columns
from stratalog.records.compression import Codec
from stratalog.records.kernels import audit, resync, text, walk
from stratalog.records.kernels.decode import RECORD, decode, sums
from stratalog.records.kernels.lookup import find_record
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import new_table, walk_batches
from stratalog.segment.scan import scan_segment
from tests import both_forms
from tests.log.model import NOW, Machine
from tests.records.changing import changed

INT16S = [0, -1, INT16_MAX, -INT16_MAX - 1, 8, 16, 32, 64]
INT32S = [0, -1, 1, 2, INT32_MAX, INT32_MAX - 1, INT32_MIN]
INT64S = [0, -1, 1, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, NOW]
FIELDS = {
    "base_offset": INT64S,
    "partition_leader_epoch": INT32S,
    "attributes": INT16S,
    "last_offset_delta": INT32S,
    "base_timestamp": INT64S,
    "max_timestamp": INT64S,
    "producer_id": INT64S,
    "producer_epoch": INT16S,
    "base_sequence": INT32S,
    "records_count": INT32S,
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"cleanup_policy": "compact"},
    {"message_timestamp_type": "LogAppendTime"},
    {"message_timestamp_before_max_ms": INT64_MAX, "message_timestamp_after_max_ms": INT64_MAX},
]


def extreme_log(rng: random.Random) -> bytes:
    """A few batches; their checksums are right unless their bytes were damaged after all else."""
    return b"".join(_extreme_batch(rng) for _ in range(rng.choice([1, 1, 3])))


def _extreme_batch(rng: random.Random) -> bytes:
    records = [
        Record(
            offset,
            rng.choice([0, NOW, 2**62]),
            rng.choice([None, b"", b"k" * 9]),
            rng.choice([None, b"v" * 20]),
            (("h", None),) * rng.randrange(2),
        )
        for offset in range(rng.randrange(1, 4))
    ]
    batch = build_batch(records, BatchOptions(codec=rng.choice([Codec.NONE, Codec.NONE, Codec.LZ4])))
    for name in rng.sample([*FIELDS], rng.choice([1, 1, 2, 4])):
        batch = changed(batch, **{name: rng.choice(FIELDS[name])})
    match rng.randrange(8):
        case 0:
            spoiled = bytearray(batch)
            spoiled[rng.randrange(61, len(batch))] = rng.choice([0, 127, 128, 255])
            return changed(bytes(spoiled))
        case 1:
            spoiled = bytearray(batch)
            struct.pack_into(">i", spoiled, 8, rng.choice(INT32S))
            return bytes(spoiled)
    return batch


def _attempt(action: Callable[[], object]) -> None:
    """Only our own errors are expected."""
    with suppress(StratalogError):
        action()


def read_by_kernels(data: bytes, rng: random.Random) -> None:
    """Call kernels that the public functions call only after other checks."""
    array = byte_array(data)
    table = new_table(8)
    count, _, _ = walk.walk(array, 0, len(data), table, True, 2**62)
    batches = table[:count]
    rows = np.zeros(16, RECORD)
    found, _, _ = decode(array, batches[batches["magic"] == 2], rows, (0, 0, 0), 2**62, INT64_MIN, INT64_MAX)
    sums(rows[:found])
    walk.run_facts(batches)
    walk.ascend(batches, rng.choice(INT64S))
    facts, gaps, crcs = np.zeros(1, audit.FACTS), np.zeros((1, 2), np.int64), np.zeros(8, np.uint32)
    facts["last_offset"], facts["epoch"] = rng.choice(INT64S), rng.choice(INT32S)
    limits = rng.choice(INT64S), rng.choice(INT64S), rng.choice(INT64S), rng.choice(INT64S)
    entries = np.array(sorted(rng.sample(INT64S, 3)), np.int64)
    audit.check(array, 0, len(data), 0, limits, (entries, entries, entries, entries), facts, gaps, crcs)
    find_record(array, len(data), rng.choice(INT64S), rng.choice(INT64S))
    last = np.array([rng.choice(INT64S), rng.choice(INT32S)])
    next_base = rng.choice(INT64S)
    resync.find_start(array, 0, len(data), len(data), last, next_base)
    resync.accept(batches, 0, last, next_base, np.zeros(count, np.bool_), False)
    if found:
        at = (0, 0, rng.choice(INT64S))
        out, gaps = np.zeros(8192, np.uint8), np.zeros((32, 2), np.int64)
        parts = np.zeros(text.PARTS_SHAPE, np.int64)
        text.write_lines(array, batches, count, rows[:found], text.METADATA, 0, at, out, gaps, parts)


def read_and_append(data: bytes, path: Path, rng: random.Random) -> None:
    """What a log's readers and appends do with these bytes."""
    _attempt(lambda: walk_batches(data))
    _attempt(lambda: list(read_columns(data, columns=ALL_COLUMNS, check_crc=False)))
    path.write_bytes(data)
    disk = Disk()
    _attempt(lambda: scan_segment(disk, str(path), 0))
    disk.release(str(path.parent))
    log = Machine(**rng.choice(SETTINGS)).open()
    _attempt(lambda: log.append_as_leader(data, leader_epoch=0))
    _attempt(lambda: log.append_as_follower(data, leader_epoch=INT32_MAX))
    _attempt(log.close)  # there is no offset after the largest


def main(count: int) -> None:
    both_forms.compare_always()
    rng = random.Random(34)
    with TemporaryDirectory() as folder:
        for _ in range(count):
            data = extreme_log(rng)
            read_by_kernels(data, rng)
            read_and_append(data, Path(folder, f"{0:020}.log"), rng)
    print(*sorted(both_forms.calls))


if __name__ == "__main__":
    main(int(sys.argv[1]))
