"""How long does it take to open a cleanly closed log of 10,000 segments?

Opening must learn the name and size of each file, so the least possible cost is what the rival does: one
`stat` for each file. A figure of 1.0 would mean that everything else takes no time. The floor of 0.2 allows
five times the rival's time, for listing, parsing names and creating segments. At the end, a log of 100,000
segments is opened with a limit of 1,024 open files, to show that this works.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from pathlib import Path

from benchmarks.rounds import Rounds
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.log.producers.snapshot import build_snapshot
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.records.batch import set_base_offset
from stratalog.records.build import Record, build_batch

SEGMENTS = 10_000
MANY_SEGMENTS = 100_000


def write_segments(folder: Path, count: int) -> None:
    """Writes segments of one batch each, as a clean close leaves them."""
    batch = bytearray(build_batch([Record(0, 1_700_000_000_000, b"key", b"value" * 20)]))
    time_entry = (1_700_000_000_000).to_bytes(8, "big") + bytes(4)
    snapshot = build_snapshot([])
    for base_offset in range(count):
        set_base_offset(batch, base_offset)
        name = f"{folder}{os.sep}{base_offset:020d}"
        Path(f"{name}.log").write_bytes(batch)
        Path(f"{name}.index").touch()
        Path(f"{name}.timeindex").write_bytes(time_entry)
    # A broker keeps only the last few.
    for offset in (count - 1, count):
        (folder / f"{offset:020d}.snapshot").write_bytes(snapshot)


def open_log(folder: Path) -> Log:
    return load(
        disk=Disk(),
        clock=system_clock,
        scheduler=BackgroundScheduler(),
        directory=folder,
        topic_partition=TopicPartition("many", 0),
        config=LogConfig(),
    )


def stat_all(paths: list[str]) -> None:
    for path in paths:
        os.stat(path)  # noqa: PTH116 (Path.stat costs more than the call)


def main() -> None:
    rounds = Rounds(__doc__ or "")
    root = Path(tempfile.mkdtemp(prefix="stratalog-open-"))
    try:
        folder = root / "many-0"
        folder.mkdir()
        count = int(SEGMENTS * rounds.scale)
        write_segments(folder, count)
        paths = [str(path) for path in folder.iterdir()]
        assert open_log(folder).log_end_offset == count
        rounds.compare(
            "open_vs_stat",
            ours=lambda: open_log(folder),
            rival=lambda: stat_all(paths),
            floor=0.2,
            work="segments",
            amount=count,
        )
        huge = root / "huge-0"
        huge.mkdir()
        write_segments(huge, int(MANY_SEGMENTS * rounds.scale))
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
        log = open_log(huge)
        print(f"{len(log.segments):,} segments are open in a process that may have 1,024 files open")
        log.close_handlers()
    finally:
        shutil.rmtree(root)
    rounds.end()


if __name__ == "__main__":
    main()
