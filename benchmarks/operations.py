"""Five operations over one log directory, each in a process of its own: recover, audit, scan, clean, export.

The benchmarks `memory`, `growth` and `threads` share these operations. The partitions of the directory have
equal content, up to 1 GB each. Their .log files are links to the same bytes, so all of them are in the page
cache, however large the directory is. Each process first works on a small directory, which loads the kernels.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import stratalog
from benchmarks.audit import seconds_of_audit
from benchmarks.clean import DEFAULT_MAP_SIZE, DIRTY, chunks, clean_ours, copied, random_numbers, write_log
from benchmarks.load_unclean import THREADS, peak_anonymous_memory, warm
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.engine.threads import ThreadEngine
from stratalog.jobs.export import export_logs
from stratalog.jobs.exporting.rows import RowSettings
from stratalog.jobs.reading.options import ReadOptions
from stratalog.records.compression import Codec

RECORDS_OF_A_GIGABYTE = 7_800_000  # of 100-byte values
RECORDS_OF_A_SMALL_SEGMENT = 128
ROOT = Path(__file__).parent.parent
_RUN = "from benchmarks.operations import run_here; run_here()"


class Cost(NamedTuple):
    """What an operation took: seconds, and the peak of anonymous memory, without the cleaner's map."""

    seconds: float
    memory: int


def write_directory(path: Path, partitions: int, records: int) -> None:
    """A log directory after a clean shutdown; there is one partition to clean, in a topic of that name."""
    source = path.parent / f"{path.name}-source" / str(DIRTY)
    write_log(source, chunks(random_numbers(records, max(1, records // 8)), 100), Codec.NONE)
    _finish_directory(source, path, partitions)


def write_small_segments(path: Path, count: int) -> None:
    """As `write_directory`, with one partition that has this many small segments."""
    source = path.parent / f"{path.name}-source" / str(DIRTY)
    records = RECORDS_OF_A_SMALL_SEGMENT
    numbers = np.random.default_rng(1).integers(0, count * records // 8, (count, records))
    write_log(source, chunks(iter(numbers), 100), Codec.NONE, rolls_for_each=True)
    _finish_directory(source, path, 1)


def _finish_directory(source: Path, path: Path, partitions: int) -> None:
    """Link partitions to the source, and shut the directory down cleanly."""
    for partition in range(partitions):
        copied(source, path / f"{DIRTY.topic}-{partition}")
    assert not recover_directories([str(path)], options=RecoveryChoices()).is_failed
    warm(sorted(source.glob("*.log")))


def cost(operation: str, path: Path, small: Path, *, threads: int = THREADS) -> Cost:
    """Run an operation of `OPERATIONS` in another process."""
    command = [sys.executable, "-c", _RUN, operation, str(path), str(small), str(threads)]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Cost(*json.loads(output.splitlines()[-1]))


def run_here() -> None:
    """Run the operation that the command line names, and print what it took."""
    operation, path, small, threads = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    if operation == "clean" and threads == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # because it has no setting for its threads
    OPERATIONS[operation](small, threads)
    with peak_anonymous_memory() as peak:
        seconds = OPERATIONS[operation](path, threads)
    print(json.dumps([seconds, peak[0] - (DEFAULT_MAP_SIZE if operation == "clean" else 0)]))


def _recover(path: Path, threads: int) -> float:
    (path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (path / "recovery-point-offset-checkpoint").write_bytes(b"")
    began = time.perf_counter()
    report = recover_directories([str(path)], options=RecoveryChoices(readers=threads))
    assert not report.is_failed
    return time.perf_counter() - began


def _audit(path: Path, threads: int) -> float:
    return seconds_of_audit(path, threads)


def _scan(path: Path, threads: int) -> float:
    began = time.perf_counter()
    for _ in stratalog.scan(path, threads=threads).to_batches():
        pass
    return time.perf_counter() - began


def _clean(path: Path, threads: int) -> float:
    """All partitions, one after the other, as one cleaner thread does; the logs themselves stay."""
    del threads
    target = path.parent / f"{path.name}-cleaned" / str(DIRTY)
    return sum(clean_ours(folder, target) for folder in sorted(path.glob(f"{DIRTY.topic}-*")))


def _export(path: Path, threads: int) -> float:
    folder = path.parent / f"{path.name}-exported"  # which also gets the export's ledger
    folder.mkdir()
    began = time.perf_counter()
    export_logs(ThreadEngine(threads), ReadOptions(paths=(str(path),)), str(folder / "out"), RowSettings())
    seconds = time.perf_counter() - began
    shutil.rmtree(folder)
    return seconds


OPERATIONS: dict[str, Callable[[Path, int], float]] = {
    "recover": _recover,
    "audit": _audit,
    "scan": _scan,
    "clean": _clean,
    "export": _export,
}
