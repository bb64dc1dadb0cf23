"""What do two threads gain over one, in recover, audit, scan, clean and export of cached logs?

`threads_*` is that gain divided by the machine's own limit: what two threads of `preadv` plus CRC gain over
one on the same files. For the cleaner, which has no setting for its threads, one thread means one core.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

from benchmarks.load_unclean import THREADS, on_threads, read_and_sum
from benchmarks.operations import OPERATIONS, RECORDS_OF_A_GIGABYTE, cost, write_directory
from benchmarks.rounds import Rounds

PARTITIONS = 4
ROUNDS = 5


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-threads-"))
    small, large = work / "small", work / "large"
    write_directory(small, 1, 1000)
    write_directory(large, PARTITIONS, int(RECORDS_OF_A_GIGABYTE * rounds.scale))
    paths, local = sorted(large.glob("*/*.log")), threading.local()
    for operation in OPERATIONS:
        times: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS if rounds.scale == 1 else 1):
            for count in (1, THREADS):
                limit = on_threads(read_and_sum(local), paths, count)
                times.setdefault(("limit", count), []).append(limit)
                ours = cost(operation, large, small, threads=count).seconds
                times.setdefault(("ours", count), []).append(ours)
        best = {key: min(found) for key, found in times.items()}
        gain = best["ours", 1] / best["ours", THREADS]
        limit = best["limit", 1] / best["limit", THREADS]
        print(f"{operation}: {gain:.2f} times as fast on two threads, reading {limit:.2f} times", flush=True)
        rounds.state(f"threads_{operation}", gain / limit, 0.9)
    shutil.rmtree(work)
    rounds.end()


if __name__ == "__main__":
    main()
