"""How fast are log directories audited, compared with plain reading and with Kafka's dump tool?

The data is 8 GB in 32 partitions, with indexes, in batches of 16 KiB. An audit reads and checksums each byte
once, so the least possible cost is one `preadv` into a warm buffer plus one crc32c call per chunk, on the
same number of threads. `audit_vs_read` compares with that, and so does `audit_300_vs_read`, on 2 GB in
batches of 280 bytes. `memory` is 400 MB divided by the peak of anonymous memory. `linear` is eight times the
time for an eighth of the data, divided by the time for all of it.

`audit_vs_dump` compares with Kafka's dump tool on logs and indexes, which is Kafka's own check. The start of
the tool is measured on a small segment and subtracted. `spark_vs_threads` is the time on threads divided by
that of the same audit on an embedded Spark with as many cores; `spark_with_start_vs_threads` also counts the
start of the Spark session. These two have no floor.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from benchmarks.load_unclean import (
    ALLOWED_MEMORY,
    PARTITIONS,
    SEGMENTS,
    THREADS,
    on_threads,
    peak_anonymous_memory,
    read_and_sum,
    warm,
)
from benchmarks.log_directory import segments
from benchmarks.rounds import Rounds
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.engine.engine import Engine
from stratalog.engine.threads import ThreadEngine
from stratalog.operations.audit.audit import audit
from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session
from tests.kafka.jars import resolve
from tests.kafka.tools import AS_SHIPPED, TOOLS, java_command, log_flags

SMALL_BATCH, LARGE_BATCH = 280, 16 << 10


def write_directory(path: Path, batch_size: int, partitions: int, scale: float) -> list[Path]:
    """Writes partitions with indexes, as a clean shutdown leaves them; returns their logs."""
    files = segments(batch_size, SEGMENTS, int((128 << 20) * scale))
    for partition in range(partitions):
        folder = path / f"load-{partition}"
        folder.mkdir(parents=True)
        for base, data in files:
            data.tofile(folder / f"{base:020d}.log")
    assert not recover_directories([str(path)], options=RecoveryChoices()).is_failed
    logs = sorted(path.glob("load-*/*.log"))
    warm(logs)
    return logs


def seconds_of_audit(path: Path, threads: int | None = THREADS, engine: Engine | None = None) -> float:
    began = time.perf_counter()
    report = audit([path], engine=engine or (None if threads is None else ThreadEngine(threads)))
    seconds = time.perf_counter() - began
    assert report.status == 0, report.verdict
    return seconds


def compare_spark(rounds: Rounds, path: Path) -> None:
    """Compares Spark with threads on as many cores, without and with the start of its session."""
    times: dict[str, list[float]] = {"threads": [], "spark": []}

    def timed(name: str, engine: Engine) -> float:
        times[name].append(seconds_of_audit(path, engine=engine))
        return times[name][-1]

    began = time.perf_counter()
    with session("stratalog audit", master=f"local[{THREADS}]") as spark:
        engine = SparkEngine(spark)
        start = time.perf_counter() - began
        rounds.compare_times(
            "spark_vs_threads",
            ours=lambda: timed("spark", engine),
            rival=lambda: timed("threads", ThreadEngine(THREADS)),
            floor=0,
            unit="s",
        )
    if times["threads"]:
        with_start = start + times["spark"][0]  # its workers start in this run
        rounds.state("spark_with_start_vs_threads", min(times["threads"]) / with_start, 0)


def seconds_of_dump(logs: list[Path]) -> float:
    """The seconds of Kafka's dump tool on these logs and their indexes, in one process."""
    jars = resolve()
    files = [str(log.with_suffix(suffix)) for log in logs for suffix in (".log", ".index", ".timeindex")]
    flags = log_flags(jars, jars.folder, level="WARN", target="err")
    command = [*java_command(jars, AS_SHIPPED, flags), TOOLS["dump-log"].name, "--files", ",".join(files)]
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    rounds = Rounds(__doc__ or "")
    work = Path(tempfile.mkdtemp(prefix="stratalog-audit-"))
    logs = write_directory(work / "large", LARGE_BATCH, PARTITIONS, rounds.scale)
    local = threading.local()
    for figure, batch_size, floor in (
        ("audit_vs_read", LARGE_BATCH, 0.6),
        ("audit_300_vs_read", SMALL_BATCH, 0.2),
    ):
        path = work / "large"
        if batch_size == SMALL_BATCH:
            path = work / "small-batches"
            logs_read = write_directory(path, batch_size, PARTITIONS // 4, rounds.scale)
        else:
            logs_read = logs
        rounds.compare_times(
            figure,
            ours=partial(seconds_of_audit, path),
            rival=partial(on_threads, read_and_sum(local), logs_read, THREADS),
            floor=floor,
            unit="s",
        )
    with peak_anonymous_memory() as peak:
        seconds_of_audit(work / "large", None)
    rounds.state("memory", ALLOWED_MEMORY / peak[0], 1.0)
    eighth = work / "eighth"
    write_directory(eighth, LARGE_BATCH, PARTITIONS // 8, rounds.scale)
    rounds.compare_times(
        "linear",
        ours=lambda: seconds_of_audit(work / "large"),
        rival=lambda: 8 * seconds_of_audit(eighth),
        floor=0.89,
        unit="s",
    )
    tiny = work / "tiny"
    tiny_logs = write_directory(tiny, LARGE_BATCH, 1, 0.0002)
    start = min(seconds_of_dump(tiny_logs) for _ in range(3))
    eighth_logs = sorted(eighth.glob("load-*/*.log"))
    rounds.compare_times(
        "audit_vs_dump",
        ours=lambda: seconds_of_audit(eighth),
        rival=lambda: seconds_of_dump(eighth_logs) - start,
        floor=10,
        unit="s",
        rounds=3,
    )
    compare_spark(rounds, work / "large")
    shutil.rmtree(work)
    rounds.end()


if __name__ == "__main__":
    main()
