"""Runs damaged batches through every reader: `python -m tests.properties.attack SEED FIRST COUNT PROGRESS`.

It runs in a separate process, because a fault may kill it: a read outside of the buffer hits a page without
permissions (SIGSEGV), and a case that does not end gets an alarm (SIGALRM). The file PROGRESS has the number
of the current case. At the end it prints as JSON how often each outcome was seen.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import resource
import signal
import struct
import sys
import time
from pathlib import Path

from tests.properties.corpus import corpus
from tests.properties.mutate import Case, mutated
from tests.properties.readers import Readers

SECONDS = 60  # the limit of a case, which takes a few milliseconds unless the machine is busy
MEMORY = 256 << 20  # the limit for all cases together


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def main(seed: int, first: int, count: int, progress_file: str) -> None:
    faulthandler.enable()
    # Print the stack, and then die as SIGALRM does by default.
    faulthandler.register(signal.SIGALRM, chain=True)
    with Path(progress_file).open("r+b") as file, mmap.mmap(file.fileno(), 8) as progress:
        readers = Readers()
        for number, seed_batch in enumerate(
            corpus()
        ):  # compiles kernels, and allocates the memory that stays
            raw = seed_batch.raw
            readers.run(
                Case(
                    number=4 * number,
                    name=seed_batch.name,
                    data=raw,
                    head=seed_batch.head,
                    magic=seed_batch.magic,
                    plain=seed_batch.plain,
                )
            )
        readers.outcomes.clear()
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + MEMORY,) * 2)
        slowest = 0.0
        for number in range(first, first + count):
            struct.pack_into("<q", progress, 0, number)
            started = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            readers.run(mutated(seed, number))
            slowest = max(slowest, time.perf_counter() - started)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps({"slowest": slowest, "outcomes": dict(sorted(readers.outcomes.items()))}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
