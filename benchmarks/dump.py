"""How fast is a segment of 1 GiB dumped, against Kafka's dump tool?

The segment has ten million records with a 10-byte key and an 84-byte JSON value, in 16 KiB batches; the
output goes to /dev/null. Both sides are whole processes; the tool runs with the flags of Kafka's own script.
`dump_batches` and `dump_data` compare only the work: the start time of each side, measured with the same
command on a segment of 6 kB, is subtracted. `dump_start` compares the start times. `dump_data` is with
`--print-data-log`. The least work possible is one pass over the bytes for the checksums, and for `dump_data`
also the writing of 2.2 GB of lines. Nearly all of the benchmark's time is the tool's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import pyarrow as pa

from benchmarks.rounds import SMOKE_SCALE
from stratalog.records.build import BatchOptions, build_batches
from tests.kafka.jars import KafkaJars, KafkaUnavailableError, resolve
from tests.kafka.tools import AS_SHIPPED, TOOLS, java_command, log_flags

SEGMENT_SIZE = 1 << 30
SMALL_SIZE = 6_000
ROWS_AT_ONCE = 200_000
# The flags and the floor of each figure.
FIGURES: dict[str, tuple[list[str], float]] = {
    "dump_batches": ([], 3.0),
    "dump_data": (["--print-data-log"], 8.0),
}
START_FLOOR = 1.5
LEAST_ROUNDS = 5


def batches() -> Iterator[bytes]:
    """Endless batches from a fixed seed: the same records repeat at new offsets."""
    rng = random.Random(1)
    keys = [b"user-%05d" % rng.randrange(100_000) for _ in range(ROWS_AT_ONCE)]
    values = [
        json.dumps({"id": i, "amount": rng.randrange(10**6) / 100, "page": "home", "state": "paid"})
        .encode()
        .ljust(84)[:84]
        for i in range(ROWS_AT_ONCE)
    ]
    base_offset = 0
    while True:
        times = [1_700_000_000_000 + base_offset + i for i in range(ROWS_AT_ONCE)]
        table = pa.table({"key": keys, "value": values, "timestamp": pa.array(times, pa.int64())})
        options = BatchOptions(partition_leader_epoch=0)
        yield from build_batches(table, options, base_offset=base_offset, batch_size=16 << 10)
        base_offset += ROWS_AT_ONCE


def write_segment(folder: Path, size: int) -> Path:
    """A segment of at most `size` bytes, but with at least one batch."""
    folder.mkdir()
    log = folder / "00000000000000000000.log"
    written = 0
    with log.open("wb") as file:
        for batch in batches():
            if written and written + len(batch) > size:
                break
            written += file.write(batch)
    return log


def write_small_segment(folder: Path) -> Path:
    """One batch of about SMALL_SIZE bytes."""
    folder.mkdir()
    log = folder / "00000000000000000000.log"
    values = [b"%060d" % i for i in range(SMALL_SIZE // 67)]
    log.write_bytes(b"".join(build_batches(pa.table({"value": values}))))
    return log


def seconds(command: Sequence[str]) -> float:
    with Path(os.devnull).open("wb") as nowhere:
        began = time.perf_counter()
        subprocess.run(command, stdout=nowhere, check=True)
        return time.perf_counter() - began


def commands(jars: KafkaJars) -> tuple[list[str], list[str]]:
    """(our command, the tool's), to be followed by flags and a file."""
    ours = [sys.executable, "-m", "stratalog.cli.main", "dump"]
    flags = log_flags(jars, jars.folder, level="WARN", target="err")
    return ours, [*java_command(jars, AS_SHIPPED, flags), TOOLS["dump-log"].name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the data: does it run at all")
    parser.add_argument(
        "--rounds", type=int, default=LEAST_ROUNDS, help="how often each rival runs (default 5)"
    )
    options = parser.parse_args()
    print((__doc__ or "").splitlines()[0])
    try:
        ours, rival = commands(resolve())
    except KafkaUnavailableError as error:
        print(f"Kafka cannot be had: {error}")
        return 0 if options.smoke else 1
    with tempfile.TemporaryDirectory(prefix="stratalog-dump-") as work:
        size = int(SEGMENT_SIZE * (SMOKE_SCALE if options.smoke else 1))
        log = write_segment(Path(work) / "large", size)
        small = write_small_segment(Path(work) / "small")
        rounds = 1 if options.smoke else max(LEAST_ROUNDS, options.rounds)
        return 1 if measure(ours, rival, log, small, rounds) and not options.smoke else 0


def measure(ours: list[str], rival: list[str], log: Path, small: Path, rounds: int) -> list[str]:
    """Run all commands in turns and print the figures; returns those below their floor."""
    seconds([*ours, "--print-data-log", "--files", str(small)])  # loads or compiles the kernels
    starts: list[tuple[float, float]] = []
    works: dict[str, list[tuple[float, float]]] = {figure: [] for figure in FIGURES}
    for _ in range(rounds):
        starts.append(pair(ours, rival, [], small))
        for figure, (flags, _floor) in FIGURES.items():
            works[figure].append(pair(ours, rival, flags, log))
    best_start = tuple(min(times) for times in zip(*starts, strict=True))
    missed = tell("dump_start", starts, START_FLOOR, log.stat().st_size)
    for figure, (_, floor) in FIGURES.items():
        net = [(r - best_start[0], o - best_start[1]) for r, o in works[figure]]
        missed += tell(figure, net, floor, log.stat().st_size)
    return missed


def pair(ours: list[str], rival: list[str], flags: list[str], log: Path) -> tuple[float, float]:
    """(the tool's seconds, our seconds)."""
    end = [*flags, "--files", str(log)]
    return seconds([*rival, *end]), seconds([*ours, *end])


def tell(figure: str, times: list[tuple[float, float]], floor: float, size: int) -> list[str]:
    """Print a figure; returns its name if it is below its floor."""
    best_rival, best_ours = (min(each) for each in zip(*times, strict=True))
    ratio, middle = best_rival / best_ours, median(rival / ours for rival, ours in times)
    work = "" if figure == "dump_start" else f" for {size / 1e6:,.0f} MB"
    print(f"{figure}: rival {best_rival:.2f} s{work}, ours {best_ours:.2f} s")
    print(f"{figure}: {ratio:.2f}  (median {middle:.2f}, floor {floor})")
    return [figure] if ratio < floor else []


if __name__ == "__main__":
    sys.exit(main())
