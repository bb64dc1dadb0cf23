"""Do recover, audit, scan, clean and export of eight times as many bytes take eight times as long?

`growth_*` is eight times the time at 1 GB, divided by the time at 8 GB. If it is below 1, the cost of a byte
grows with the data.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.operations import OPERATIONS, RECORDS_OF_A_GIGABYTE, cost, write_directory
from benchmarks.rounds import Rounds

GIGABYTES = 8


def seconds(operation: str, path: Path, small: Path, times: int = 1) -> float:
    return times * cost(operation, path, small).seconds


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-growth-"))
    records = int(RECORDS_OF_A_GIGABYTE * rounds.scale)
    small, one, eight = work / "small", work / "one", work / "eight"
    write_directory(small, 1, 1000)
    write_directory(one, 1, records)
    write_directory(eight, GIGABYTES, records)
    for operation in OPERATIONS:
        rounds.compare_times(
            f"growth_{operation}",
            ours=partial(seconds, operation, eight, small),
            rival=partial(seconds, operation, one, small, GIGABYTES),
            floor=0.89,
            unit="s",
            rounds=5,
        )
    shutil.rmtree(work)
    rounds.end()


if __name__ == "__main__":
    main()
