"""Do strategies for loading a log directory save as much time here as in an article on Kafka's start?

The benchmark runs `stratalog bench startup` with its defaults. A figure says how many times faster a strategy
is than that of Kafka 2.1, with one reader, and with the files in the page cache (warm) or not (cold).
`dedupe_*`: after a power cut, the strategy does not scan a segment twice. The article measured 1.56; scanning
once instead of twice can give at most 2.0. `lazy_indexes_*`: after a clean stop, the strategy does not map
the indexes of 1,000 segments. The article measured 2.14.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.rounds import SMOKE_SCALE, Rounds
from stratalog.operations.words import counted

LITTLE = (
    *("--partitions", "2", "--segment-bytes", "1MiB", "--many-segments", "20", "--rounds", "1"),
    *("--readers", "1", "--no-cold", "--no-kafka"),
)
# Strategy, state, and the floor of the warm figure. The floor of a cold figure is 1: the order must be the
# article's.
FIGURES = {
    "dedupe": ("dedupe", "unclean", 1.4),
    "lazy_indexes": ("lazy", "clean, many segments", 1.0),
}


def measure(options: tuple[str, ...]) -> list[dict[str, Any]]:
    folder = os.environ.get("STRATALOG_PICTURES")
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        options = (*options, "--svg", str(Path(folder, "startup-gains.svg")))
    command = [sys.executable, "-m", "stratalog.cli.main", "bench", "startup", "--json", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["measured"]
    return rows


def sentence(row: dict[str, Any]) -> str:
    words = f"{row['strategy']}, {row['state']}, {row['cache']}, {counted(row['readers'], 'reader')}"
    times = f"best {row['seconds']:.3f} s, median {row['median_seconds']:.3f} s"
    return f"{words}: {times}" + (f"; article: {row['article']}" if row["article"] else "")


def main() -> None:
    rounds = Rounds(__doc__ or "")
    rows = measure(LITTLE if rounds.scale == SMOKE_SCALE else ())
    for row in rows:
        print(sentence(row))
    found = {(row["strategy"], row["state"], row["cache"]): row for row in rows if row["readers"] == 1}
    for figure, (strategy, state, floor) in FIGURES.items():
        for cache in ("warm", "cold"):
            ours, kafka = (found.get((name, state, cache)) for name in (strategy, "kafka-2.1"))
            if ours is not None and kafka is not None:
                middle = kafka["median_seconds"] / ours["median_seconds"]
                rounds.state(f"{figure}_{cache}", ours["gain"], floor if cache == "warm" else 1.0, middle)
    rounds.end()


if __name__ == "__main__":
    main()
