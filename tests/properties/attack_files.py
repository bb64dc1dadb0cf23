"""Runs damaged files through everything that reads them.

`python -m tests.properties.attack_files GROUP SEED FIRST COUNT PROGRESS`, where GROUP is "files", "segments",
"directories" or "links".

It is a separate process, like `attack.py`, and dies in the same way from a read outside of memory or a hang.
Every buffer that a file is read into ends at a forbidden page. If all cases together need more than MEMORY,
or a length is used unchecked, a MemoryError is raised, which is not one of our errors.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import mmap
import random
import resource
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stratalog import buffers
from tests.guarded import GuardedBuffer
from tests.properties.attack import SECONDS, address_space

MEMORY = 512 << 20  # some buffers are of 16 MiB, and freed memory is not given back at once
EVERY = 200
# Cases that compile kernels, and allocate the memory that stays.
WARM = {"files": 300, "segments": 30, "directories": 30, "links": 5}


def guarded_buffer(size: int) -> NDArray[np.uint8]:
    """Replaces `aligned_buffer`: reading one byte too many kills the process."""
    return GuardedBuffer(size).behind


def runner(group: str, work: Path) -> tuple[Callable[[random.Random], None], Callable[[], dict[str, object]]]:
    """The function that runs a case of this group, and the one that reports the outcomes."""
    # After the buffers are guarded, because modules bind the function when they are imported.
    buffers.aligned_buffer = guarded_buffer
    from tests.properties import directories, victims
    from tests.properties.victim import Outcomes

    outcomes = Outcomes()
    if group == "files":
        shares = [victim.share for victim in victims.VICTIMS]

        def run(rng: random.Random) -> None:
            rng.choices(victims.VICTIMS, shares)[0].attack(outcomes, rng)

    else:
        attacks: dict[str, Callable[[Outcomes, random.Random], None]] = {
            "segments": directories.attack_segment,
            "directories": directories.attack_directory,
            "links": lambda outcomes, rng: directories.attack_links(outcomes, rng, work),
        }
        attack = attacks[group]

        def run(rng: random.Random) -> None:
            attack(outcomes, rng)

    def told() -> dict[str, object]:
        return {"outcomes": dict(sorted(outcomes.counts.items())), "kinds": dict(outcomes.kinds)}

    def clear() -> None:
        outcomes.counts.clear()
        outcomes.kinds.clear()

    for number in range(WARM[group]):
        run(random.Random(f"warm/{number}"))
    clear()
    return run, told


def main(group: str, seed: int, first: int, count: int, progress_file: str) -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGALRM, chain=True)
    with (
        Path(progress_file).open("r+b") as file,
        mmap.mmap(file.fileno(), 8) as progress,
        tempfile.TemporaryDirectory(dir=Path(progress_file).parent) as work,
    ):
        run, told = runner(group, Path(work))
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + MEMORY,) * 2)
        slowest = 0.0
        for number in range(first, first + count):
            struct.pack_into("<q", progress, 0, number)
            started = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            run(random.Random(f"{group}/{seed}/{number}"))
            slowest = max(slowest, time.perf_counter() - started)
            if number % EVERY == 0:
                gc.collect()  # disks are in reference cycles; anything left after this is a leak
        signal.setitimer(signal.ITIMER_REAL, 0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(json.dumps({"slowest": slowest, "grown_kib": grown, **told()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
