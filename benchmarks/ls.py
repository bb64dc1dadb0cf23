"""How long does it take to list 10,000 partitions of 4 segments?

A listing must learn the name and size of each file, so the least possible cost is what the rival does:
`os.scandir` of each folder, with a `stat` of each file. A figure of 1.0 would mean that everything else takes
no time. The floor of 0.2 allows five times the rival's time, because `ls` does more: it lists each folder
until two listings agree (a broker may change the folder meanwhile), and reads the newest index and the first
and the last batch of each log.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from benchmarks.open_many import write_segments
from benchmarks.rounds import Rounds
from stratalog.operations.ls import TopicListing
from stratalog.operations.report import Table

PARTITIONS = 10_000
SEGMENTS = 4
PER_TOPIC = 10


def write_partitions(root: Path, count: int) -> None:
    """Partitions as a clean stop leaves them, ten to a topic."""
    names = [(f"topic{number // PER_TOPIC}", number % PER_TOPIC) for number in range(count)]
    for topic, partition in names:
        folder = root / f"{topic}-{partition}"
        folder.mkdir(parents=True)
        write_segments(folder, SEGMENTS)
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for name in ("recovery-point", "replication"):
        lines = "".join(f"{topic} {partition} {SEGMENTS}\n" for topic, partition in names)
        (root / f"{name}-offset-checkpoint").write_text(f"0\n{count}\n{lines}")
    (root / "log-start-offset-checkpoint").write_text("0\n0\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def list_with_stat(root: str) -> int:
    size = 0
    with os.scandir(root) as folders:
        for folder in folders:
            if folder.is_dir():
                with os.scandir(folder.path) as files:
                    size += sum(file.stat().st_size for file in files)
    return size


def list_topics(root: str) -> list[Table]:
    report = TopicListing(directories=[root]).run()
    assert report.totals()["segments"] == SEGMENTS * report.totals()["partitions"]
    return report.tables()


def main() -> None:
    rounds = Rounds(__doc__ or "")
    root = tempfile.mkdtemp(prefix="stratalog-ls-")
    try:
        count = int(PARTITIONS * rounds.scale)
        write_partitions(Path(root), count)
        rounds.compare(
            "ls_vs_list",
            ours=lambda: list_topics(root),
            rival=lambda: list_with_stat(root),
            floor=0.2,
            work="partitions",
            amount=count,
        )
    finally:
        shutil.rmtree(root)
    rounds.end()


if __name__ == "__main__":
    main()
