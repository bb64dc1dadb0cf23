"""How long does it take to open a cleanly shut down directory with very many segments?

The directory has 5,000 segments in 50 partitions: small files, in the page cache. Only the listings, the end
of each log and its snapshot need to be read. The rival is Kafka on the same directory, at its best thread
count; its time is the one that it logs itself. Our time is that of `LogManager.startup`. The start of both
processes is left out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.log_directory import LoadedDirectory
from benchmarks.rounds import Rounds
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.directory.clean_shutdown import NO_PROMISE
from stratalog.directory.clean_state import CleanState
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.loader import load
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.manager.manager import LogManager
from stratalog.records.build import BatchOptions, Record, build_batch

PARTITIONS, SEGMENTS = 50, 101
BATCHES_IN_A_SEGMENT = 3


class CleanDirectory:
    """Fifty equal logs of many small segments, closed, in a directory that a broker knows."""

    def __init__(self, work: Path, segments: int) -> None:
        self._loaded = LoadedDirectory(work / "clean", "load", PARTITIONS)
        self._one = work / "one" / "load-0"
        self._one.mkdir(parents=True)
        self._end_offset = self._write(segments)
        for partition in range(PARTITIONS):
            folder = self._loaded.path / f"load-{partition}"
            for old in folder.glob("0*"):
                old.unlink()
        self.restore()

    @property
    def path(self) -> Path:
        return self._loaded.path

    def restore(self) -> None:
        """Undo a load, which preallocates indexes and removes the clean-shutdown file."""
        for partition in range(PARTITIONS):
            for file in self._one.glob("0*"):
                target = self._loaded.path / f"load-{partition}" / file.name
                if not target.exists() or target.stat().st_size != file.stat().st_size:
                    shutil.copyfile(file, target)
        points = OffsetCheckpointFile(Disk(), self._loaded.path / "recovery-point-offset-checkpoint")
        points.write({TopicPartition("load", number): self._end_offset for number in range(PARTITIONS)})
        CleanState(Disk(), str(self._loaded.path)).put_back(NO_PROMISE)
        os.sync()  # a load syncs the removal of the clean-shutdown file, and would wait for these copies too

    def load_with_kafka(self) -> float:
        found = []
        for threads in (1, 2):
            self.restore()
            found.append(self._loaded.load_with_kafka(threads))
        return min(found)

    def load(self) -> float:
        self.restore()
        manager = LogManager([self._loaded.path])
        began = time.perf_counter()
        manager.startup()
        seconds = time.perf_counter() - began
        assert len(manager.all_logs()) == PARTITIONS
        assert all(log.log_end_offset == self._end_offset for log in manager.all_logs())
        manager.shutdown()
        return seconds

    def _write(self, segments: int) -> int:
        scheduler = BackgroundScheduler()
        log = load(
            disk=Disk(),
            clock=system_clock,
            scheduler=scheduler,
            directory=self._one,
            topic_partition=TopicPartition("load", 0),
            config=LogConfig(),
        )
        for segment in range(segments):
            if segment:
                log.roll()
            for _ in range(BATCHES_IN_A_SEGMENT):
                records = [Record(offset, system_clock(), None, b"v" * 1200) for offset in range(1)]
                log.append_as_leader(build_batch(records, BatchOptions()), leader_epoch=0)
        log.close()
        scheduler.close()
        return log.log_end_offset


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-clean-"))
    directory = CleanDirectory(work, max(2, int(SEGMENTS * rounds.scale)))
    rounds.compare_times(
        "load_clean",
        ours=directory.load,
        rival=directory.load_with_kafka,
        floor=10,
        unit="s",
    )
    shutil.rmtree(work)
    rounds.end()


if __name__ == "__main__":
    main()
