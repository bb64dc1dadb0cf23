"""Runs damaged batches through every reader: `python -m tests.properties.attack SEED FIRST COUNT PROGRESS`.

A process of its own, since what is looked for may kill it: a read outside of the buffer meets a page without
permissions (SIGSEGV), a case that does not end meets its alarm (SIGALRM). The number of the case under way
stands in the file PROGRESS. On the way out it prints as JSON how often each outcome was seen.
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

SECONDS = 60  # that a case may take; it takes a few thousandths of one, unless the machine is busy
MEMORY = 256 << 20  # that all cases together may add to the process


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def main(seed: int, first: int, count: int, progress_file: str) -> None:
    faulthandler.enable()
    # The stack, and then the death that SIGALRM is by default.
    faulthandler.register(signal.SIGALRM, chain=True)
    with Path(progress_file).open("r+b") as file, mmap.mmap(file.fileno(), 8) as progress:
        readers = Readers()
        for number, seed_batch in enumerate(
            corpus()
        ):  # compiles what is not compiled, takes what memory it takes
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
