"""How much memory do recover, audit, scan, clean and export take, and does it grow with the logs?

`memory_*` is 400 MB divided by the peak of anonymous memory while 8 GB are processed; the cleaner's map is
not counted. `flat_*` is the peak at 1 GB divided by the peak at 8 GB. Its floor of 0.8 leaves room for
results that are kept for each segment.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from benchmarks.load_unclean import ALLOWED_MEMORY
from benchmarks.operations import OPERATIONS, RECORDS_OF_A_GIGABYTE, cost, write_directory
from benchmarks.rounds import Rounds

GIGABYTES = 8


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-memory-"))
    records = int(RECORDS_OF_A_GIGABYTE * rounds.scale)
    write_directory(work / "small", 1, 1000)
    write_directory(work / "one", 1, records)
    write_directory(work / "eight", GIGABYTES, records)
    for operation in OPERATIONS:
        one, eight = (cost(operation, work / name, work / "small").memory for name in ("one", "eight"))
        print(f"{operation}: {one / 1e6:,.0f} MB at 1 GB, {eight / 1e6:,.0f} MB at 8 GB", flush=True)
        rounds.state(f"memory_{operation}", ALLOWED_MEMORY / eight, 1.0)
        rounds.state(f"flat_{operation}", one / eight, 0.8)
    shutil.rmtree(work)
    rounds.end()


if __name__ == "__main__":
    main()
