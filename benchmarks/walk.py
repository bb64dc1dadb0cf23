"""How fast can batch headers be scanned, with every CRC-32C checked?

The scan reads each byte once, for its checksum. The rival is the least possible cost: one call of the crc32c
package on the same 1 GiB, without batches. So 1.0 is the limit with that package. Batches of 16 KiB should
come close. With batches of 300 bytes, the 13 loads of a header and the writing of its row become visible.
"""

from __future__ import annotations

from functools import partial

import crc32c as package
import numpy as np

from benchmarks.rounds import Rounds
from stratalog.records.batch import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, BatchHeader
from stratalog.records.kernels.memory import Bytes
from stratalog.records.walk import WalkStop, new_table, walk_batches

SIZE = 1 << 30


def batches(batch_size: int, total_size: int) -> Bytes:
    """Batches of random bytes with correct checksums, from a fixed seed."""
    count = total_size // batch_size
    data = np.random.default_rng(1).integers(0, 256, (count, batch_size), dtype=np.uint8)
    header = BatchHeader(0, batch_size - LOG_OVERHEAD, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1).pack()
    data[:, :RECORD_BATCH_OVERHEAD] = np.frombuffer(header, np.uint8)
    for batch in data:
        batch[17:21] = np.frombuffer(package.crc32c(batch[21:]).to_bytes(4, "big"), np.uint8)
    return data.reshape(-1)


def walk(data: Bytes) -> int:
    """Scan all bytes; returns the number of batches, all of them valid."""
    table = new_table()
    position, found, stop = 0, 0, WalkStop.TABLE_FULL
    while stop is WalkStop.TABLE_FULL:
        step = walk_batches(data, start=position, table=table)
        assert step.headers["valid"].all()
        position, stop = step.next_position, step.stop
        found += len(step.headers)
    assert stop is WalkStop.END
    return found


def main() -> None:
    rounds = Rounds(__doc__ or "")
    for figure, batch_size, floor in (("walk_16k", 16 << 10, 0.7), ("walk_300", 300, 0.4)):
        data = batches(batch_size, int(SIZE * rounds.scale))
        assert walk(data) == data.size // batch_size
        rounds.compare(
            figure,
            ours=partial(walk, data),
            rival=partial(package.crc32c, data.data),
            floor=floor,
            work="bytes",
            amount=data.size,
        )
    rounds.end()


if __name__ == "__main__":
    main()
