"""How long does it take to recover a directory that was not shut down cleanly?

The data is 8 GB in 32 partitions, all of it above the recovery points, in batches of 280 bytes (`load_300`)
and of 16 KiB (`load_16k` and the figures below). Kafka's time is the one that it logs itself, at its best
thread count. Ours includes fsyncs, checkpoints and the clean-shutdown file.

Each byte must be read and checksummed once, so the least possible cost is one `preadv` into a warm buffer
plus one crc32c call per chunk: `scan_vs_read_crc` compares our scan with that. `cold_vs_read` compares a
recovery with plain reading if the files are not cached, so that the disk is the limit. `memory` is 400 MB
divided by the peak of anonymous memory. `linear` is eight times the time for an eighth of the data, divided
by the time for all of it.

`no_indexes` recovers 4,000 segments of which only the .log files are left, as after a restore of those alone:
12,000 files must be written and synced. Its rival is an earlier commit, which wrote these files one by one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import crc32c as package
import numpy as np

from benchmarks.earlier import EarlierCommit
from benchmarks.log_directory import LoadedDirectory, segments
from benchmarks.rounds import Rounds
from stratalog.buffers import aligned_buffer
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.files.disk import Disk
from stratalog.segment.scan import SCAN_SIZE, scan_segment

PARTITIONS, SEGMENTS = 32, 2
THREADS = 2
READ_SIZE = 4 << 20
ALLOWED_MEMORY = 400e6
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
BARE_PARTITIONS, BARE_SEGMENTS, BARE_SIZE = 40, 100, 64 << 10
RECOVER = """
import sys, time
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
for path in sys.argv[1:]:
    began = time.perf_counter()
    assert not recover_directories([path], options=RecoveryChoices()).is_failed
print(time.perf_counter() - began)
"""


def recover(directory: LoadedDirectory) -> float:
    """Seconds of a recovery, from the lock to the clean-shutdown file. Makes the directory unclean first."""
    directory.make_unclean()
    began = time.perf_counter()
    report = recover_directories([str(directory.path)], options=RecoveryChoices())
    seconds = time.perf_counter() - began
    assert not report.is_failed
    assert (directory.path / ".kafka_cleanshutdown").exists()
    return seconds


def best_of_two(work: Callable[[], float]) -> Callable[[], float]:
    """The best of two runs. The rival has two runs in each round, too: one for each thread count."""
    return lambda: min(work(), work())


def load_with_kafka(directory: LoadedDirectory, threads: tuple[int, ...]) -> Callable[[], float]:
    """Kafka's best over its thread counts."""

    def run() -> float:
        found = []
        for count in threads:
            directory.make_unclean()
            found.append(directory.load_with_kafka(count))
        return min(found)

    return run


def on_threads(work: Callable[[Path], object], paths: list[Path], threads: int) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, paths))
    return time.perf_counter() - began


def read_and_sum(local: threading.local) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        if not hasattr(local, "buffer"):
            local.buffer = aligned_buffer(READ_SIZE).data
        buffer: memoryview = local.buffer
        descriptor, position = os.open(path, os.O_RDONLY), 0
        while got := os.preadv(descriptor, [buffer], position):
            package.crc32c(buffer[:got])
            position += got
        os.close(descriptor)

    return run


def scan(local: threading.local) -> Callable[[Path], None]:
    disk = Disk()

    def run(path: Path) -> None:
        if not hasattr(local, "chunk"):
            local.chunk = aligned_buffer(SCAN_SIZE)
        found = scan_segment(disk, path, int(path.stem), buffer=local.chunk)
        assert found.valid_size == found.file_size

    return run


def read_only(path: Path) -> None:
    buffer = bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


@contextmanager
def peak_anonymous_memory() -> Iterator[list[int]]:
    """The peak of our own memory in bytes, without the page cache, while the block runs."""
    found, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            status = Path("/proc/self/status").read_text()
            found[0] = max(found[0], int(status.split("RssAnon:")[1].split()[0]) << 10)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def warm(paths: list[Path]) -> None:
    for path in paths:
        read_only(path)


def logs_of(directory: LoadedDirectory) -> list[Path]:
    return sorted(directory.path.glob(f"{directory.topic}-*/*.log"))


def compare_with_kafka(
    rounds: Rounds, work: Path, figure: str, batch_size: int, floor: float, turns: int
) -> LoadedDirectory:
    size = int((128 << 20) * rounds.scale)
    files = [(f"{base:020d}.log", data) for base, data in segments(batch_size, SEGMENTS, size)]
    directory = LoadedDirectory(work / figure, "load", PARTITIONS)
    total = directory.fill(files)
    warm(logs_of(directory))
    print(f"{figure}: {total / 1e9:.2f} GB in {PARTITIONS} partitions, batches of {batch_size} bytes")
    rounds.compare_times(
        figure,
        ours=best_of_two(lambda: recover(directory)),
        rival=load_with_kafka(directory, (2, 4)),
        floor=floor,
        unit="s",
        rounds=turns,
    )
    return directory


class BareDirectory:
    """A log directory that has only .log files."""

    def __init__(self, path: Path, partitions: int, segments_count: int) -> None:
        self.path = path
        self._removed = path.with_name(f"{path.name}-removed")
        self._names: set[str] = set()
        files = [(f"{base:020d}.log", data) for base, data in segments(1200, segments_count, BARE_SIZE)]
        for number in range(partitions):
            folder = path / f"bare-{number}"
            folder.mkdir(parents=True)
            for name, data in files:
                (folder / name).write_bytes(data.data)
                self._names.add(name)

    def strip(self) -> None:
        """Move all files except the .log files away, and wait for the device.

        Deleting them would slow down both sides: ext4 does not reuse the inodes for minutes, and searches
        past all of them for each new file. That took half of the time when this method deleted the files.
        """
        found = [path for path in [*self.path.iterdir(), *self.path.glob("bare-*/*")] if path.is_file()]
        folder = self._removed / str(time.monotonic_ns())
        folder.mkdir(parents=True)
        for number, path in enumerate(found):
            if path.name not in self._names:
                path.rename(folder / str(number))
        os.sync()

    def remove(self) -> None:
        shutil.rmtree(self.path)
        shutil.rmtree(self._removed)

    def recover(self) -> float:
        self.strip()
        began = time.perf_counter()
        assert not recover_directories([str(self.path)], options=RecoveryChoices()).is_failed
        return time.perf_counter() - began


def recover_without_indexes(rounds: Rounds, work: Path) -> None:
    earlier = EarlierCommit(work)
    small = BareDirectory(work / "small", 1, 1)  # its recovery loads the kernels, on both sides
    bare = BareDirectory(work / "bare", max(2, int(BARE_PARTITIONS * rounds.scale)), BARE_SEGMENTS)

    def rival() -> float:
        bare.strip()
        small.strip()
        return float(earlier.run(RECOVER, str(small.path), str(bare.path)))

    small.recover()
    rounds.compare_times("no_indexes", ours=bare.recover, rival=rival, floor=3, unit="s", rounds=3)
    bare.remove()
    small.remove()


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-load-"))
    recover_without_indexes(rounds, work)
    small = compare_with_kafka(rounds, work, "load_300", 280, 35, turns=2)
    small.remove()
    directory = compare_with_kafka(rounds, work, "load_16k", 16 << 10, 5, turns=5)
    paths = logs_of(directory)
    local = threading.local()
    rounds.compare_times(
        "scan_vs_read_crc",
        ours=lambda: on_threads(scan(local), paths, THREADS),
        rival=lambda: on_threads(read_and_sum(local), paths, THREADS),
        floor=0.93,
        unit="s",
    )
    with peak_anonymous_memory() as peak:
        recover(directory)
    rounds.state("memory", ALLOWED_MEMORY / peak[0], 1.0)
    part = LoadedDirectory(work / "eighth", "load", PARTITIONS // 8)
    part.fill([(path.name, np.fromfile(path, np.uint8)) for path in paths[:SEGMENTS]])
    rounds.compare_times(
        "linear",
        ours=lambda: recover(directory),
        rival=lambda: 8 * recover(part),
        floor=0.89,
        unit="s",
    )
    if os.access(DROP_CACHES, os.W_OK):
        rounds.compare_times(
            "cold_vs_read",
            ours=best_of_two(lambda: _cold(lambda: recover(directory))),
            rival=lambda: min(_cold(partial(on_threads, read_only, paths, count)) for count in (1, THREADS)),
            floor=0.85,
            unit="s",
            rounds=3,
        )
    directory.remove()
    part.remove()
    rounds.end()


def _cold(work: Callable[[], float]) -> float:
    os.sync()
    DROP_CACHES.write_text("3")
    return work()


if __name__ == "__main__":
    main()
