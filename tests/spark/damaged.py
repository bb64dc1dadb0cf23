"""A log with damage, for the tests of what Spark's workers leave out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import stratalog
from stratalog.log.new_records import NewRecord
from tests.fixtures.records import T0


def damaged_log(folder: Path, *, damaged: Sequence[int] = (0, 50), count: int = 100) -> Path:
    """A log directory with `count` records of the topic orders, each in a batch; some batches are damaged."""
    with stratalog.open_log(folder / "orders-0", create=True) as log:
        for number in range(count):
            log.append_many([NewRecord(b"value %d" % number, b"key", (), T0 + 1000 * number)])
    (path,) = (folder / "orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    position = 0
    for number in range(count):
        if number in damaged:
            data[position + 65] ^= 0xFF  # in the record
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    path.write_bytes(data)
    return folder
