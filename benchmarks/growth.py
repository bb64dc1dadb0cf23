"""Does the cost of recover, audit, scan, clean and export grow no faster than the data?

`growth_*` is eight times the time at 1 GB, divided by the time at 8 GB. `segments_*` is ten times the time
for one partition of 1,000 small segments, divided by the time for one of 10,000. If a figure is below 1, a
byte or a segment costs more where there are more of them. The times for 10 and 100 segments are printed
only: most of such a time does not depend on the segments.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.operations import (
    OPERATIONS,
    RECORDS_OF_A_GIGABYTE,
    cost,
    write_directory,
    write_small_segments,
)
from benchmarks.rounds import Rounds

GIGABYTES = 8
SEGMENTS = 1000
MORE = 10
FLOOR = 0.89


def seconds(operation: str, path: Path, small: Path, times: int = 1) -> float:
    return times * cost(operation, path, small).seconds


def compare(rounds: Rounds, name: str, small: Path, *, less: Path, more: Path, times: int) -> None:
    for operation in OPERATIONS:
        rounds.compare_times(
            f"{name}_{operation}",
            ours=partial(seconds, operation, more, small),
            rival=partial(seconds, operation, less, small, times),
            floor=FLOOR,
            unit="s",
            rounds=5,
        )


def compare_segments(rounds: Rounds, work: Path, small: Path) -> None:
    *few, less, more = (max(1, int(count * rounds.scale)) for count in (10, 100, SEGMENTS, MORE * SEGMENTS))
    folders = {count: work / f"segments-{count}" for count in (*few, less, more)}
    for count, folder in folders.items():
        write_small_segments(folder, count)
    for count in few:
        times = [f"{operation} {seconds(operation, folders[count], small):.3f} s" for operation in OPERATIONS]
        print(f"{count} segments: {', '.join(times)}", flush=True)
    compare(rounds, "segments", small, less=folders[less], more=folders[more], times=MORE)


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-growth-"))
    records = int(RECORDS_OF_A_GIGABYTE * rounds.scale)
    small, one, eight = work / "small", work / "one", work / "eight"
    write_directory(small, 1, 1000)
    write_directory(one, 1, records)
    write_directory(eight, GIGABYTES, records)
    compare(rounds, "growth", small, less=one, more=eight, times=GIGABYTES)
    compare_segments(rounds, work, small)
    shutil.rmtree(work)
    rounds.end()


if __name__ == "__main__":
    main()
