"""How long until a broker serves again after a crash: on its own, or with `stratalog recover` before it?

The logs are 17 GB in 32 partitions, all above the recovery points: once in batches of 280 bytes, as producers
with `linger.ms=0` send them, and once in batches of 16 KiB. The rival is the broker on its own, which
recovers the logs while it starts. On our side, `stratalog recover` recovers them first, in its own process,
and then the broker starts. Both times end when the broker says that it has started. The files are in the page
cache, unless the figure's name ends in `_cold`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.load_unclean import DROP_CACHES, PARTITIONS, warm
from benchmarks.log_directory import LoadedDirectory, segments
from benchmarks.rounds import Rounds

SEGMENTS = 8
TURNS = 2
SIZES = {"broker_280": (280, 5.0), "broker_16k": (16 << 10, 1.0)}  # the size of a batch, and the floor


def crashed(directory: LoadedDirectory, *, cold: bool) -> None:
    directory.make_unclean()
    if cold:
        os.sync()
        DROP_CACHES.write_text("3")


def alone(directory: LoadedDirectory, *, cold: bool = False) -> float:
    """Seconds of the broker's own start after a crash."""
    crashed(directory, cold=cold)
    return directory.start_with_kafka()


def recovered_first(directory: LoadedDirectory, *, cold: bool = False) -> float:
    """Seconds of `stratalog recover` plus those of the broker's start after it."""
    crashed(directory, cold=cold)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "stratalog.cli.main", "recover", str(directory.path), "--summary"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    recovering = time.perf_counter() - began
    return recovering + directory.start_with_kafka()


def compared(rounds: Rounds, figure: str, directory: LoadedDirectory, floor: float, *, cold: bool) -> None:
    def on(work: Callable[..., float]) -> Callable[[], float]:
        return lambda: work(directory, cold=cold)

    rounds.compare_times(
        figure, ours=on(recovered_first), rival=on(alone), floor=floor, unit="s", rounds=TURNS
    )


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-broker-"))
    for figure, (batch_size, floor) in SIZES.items():
        directory = LoadedDirectory(work / figure, "load", PARTITIONS)
        files = segments(batch_size, SEGMENTS, int((64 << 20) * rounds.scale))
        size = directory.fill([(f"{base:020d}.log", data) for base, data in files])
        print(f"{figure}: {size / 1e9:.1f} GB in batches of {batch_size} bytes")
        warm(sorted(directory.path.glob("load-*/*.log")))
        compared(rounds, figure, directory, floor, cold=False)
        if os.access(DROP_CACHES, os.W_OK):
            compared(rounds, f"{figure}_cold", directory, 0.0, cold=True)
        directory.remove()
    rounds.end()


if __name__ == "__main__":
    main()
