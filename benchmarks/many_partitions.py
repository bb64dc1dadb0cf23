"""How long does it take to start with very many partitions?

There are 20,000 partitions of one small segment, in the page cache. `many_partitions` recovers them after a
kill: each gets indexes, a snapshot and its leader epochs, and all of these are synced. Kafka syncs them
later. `many_partitions_clean` opens the partitions after a clean shutdown. The rival is Kafka on the same
directory, at its best thread count; its time is the one that it logs itself. The start of both processes is
left out.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.load_unclean import load_with_kafka, recover
from benchmarks.log_directory import LoadedDirectory, segments
from benchmarks.rounds import Rounds
from stratalog.manager.manager import LogManager

PARTITIONS, SEGMENT_SIZE = 20_000, 4 << 10
THREADS = (1, 2)


def recover_bare(directory: LoadedDirectory) -> float:
    strip(directory)
    return recover(directory)


def strip(directory: LoadedDirectory) -> None:
    """Leave only the .log files and partition.metadata."""
    for path in directory.path.glob(f"{directory.topic}-*/*"):
        if path.suffix != ".log" and path.name != "partition.metadata":
            path.unlink()


def open_clean(directory: LoadedDirectory) -> float:
    recover(directory)
    manager = LogManager([directory.path])
    began = time.perf_counter()
    manager.startup()
    seconds = time.perf_counter() - began
    assert len(manager.all_logs()) == directory.partitions
    manager.shutdown()
    return seconds


def open_clean_with_kafka(directory: LoadedDirectory) -> float:
    found = []
    for threads in THREADS:
        recover(directory)
        found.append(directory.load_with_kafka(threads))
    return min(found)


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-many-"))
    directory = LoadedDirectory(work / "many", "many", max(50, int(PARTITIONS * rounds.scale)))
    directory.fill([(f"{base:020d}.log", data) for base, data in segments(1200, 1, SEGMENT_SIZE)])
    rival = load_with_kafka(directory, THREADS)

    def recover_with_kafka() -> float:
        strip(directory)
        return rival()

    rounds.compare_times(
        "many_partitions",
        ours=lambda: recover_bare(directory),
        rival=recover_with_kafka,
        floor=3,
        unit="s",
        rounds=2,
    )
    rounds.compare_times(
        "many_partitions_clean",
        ours=lambda: open_clean(directory),
        rival=lambda: open_clean_with_kafka(directory),
        floor=3,
        unit="s",
        rounds=2,
    )
    directory.remove()
    rounds.end()


if __name__ == "__main__":
    main()
