"""How fast is a log compacted, and how much memory does it take?

The rival is Kafka's own `Cleaner.doClean` in a JVM with a broker's settings, on the same log: 4 GB of records
with 100-byte values over 5 M keys, in batches of 64. Kafka reads every byte in two passes. We read every
byte once, backwards, and then copy the remaining records. In `clean_none` the log is not compressed. In
`clean_zstd` it is compressed with zstd, which takes most of the time. `clean_50m` compares no times: it is
1.6 GB divided by the peak of anonymous memory while 50 M keys are compacted in one pass, with
`log.cleaner.dedupe.buffer.size` 1350000000. With the default size the same log takes several passes, and the
same records must remain.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.rounds import Rounds
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.cleaning import CleanResult, DirtyLog, OffsetMap, clean_log, replace_segments
from stratalog.log.cleaning.runs import RunReader
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.records.build import BatchOptions, build_batches
from stratalog.records.compression import Codec
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from tests.kafka.cleaning import CleanerOracle
from tests.kafka.jars import KafkaUnavailableError, resolve
from tests.kafka.tools import AS_SHIPPED
from tests.log.model import ManualScheduler

RECORDS = 32_000_000
KEYS = 5_000_000
MANY_KEYS = 50_000_000
VALUE_SIZE = 100
RECORDS_IN_A_BATCH = 64
CHUNK = RECORDS_IN_A_BATCH * 2000
DEFAULT_MAP_SIZE = 128 << 20
LARGE_MAP_SIZE = 1_350_000_000
MEMORY_SIZE = 1_600_000_000
SETTINGS: dict[str, str | int] = {
    "cleanup.policy": "compact",
    "segment.bytes": 1 << 30,
    "file.delete.delay.ms": 0,
}
DIRTY = TopicPartition("dirty", 0)


def binary(width: int, data: NDArray[np.uint8]) -> pa.Array:
    """Values of one width, as one Arrow array over a buffer without gaps."""
    count = len(data) // width
    ends = np.arange(count + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def chunks(numbers: Iterator[NDArray[np.int64]], value_size: int) -> Iterator[pa.Table]:
    """Records whose keys are these numbers as 16 hex digits."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    shifts = np.arange(60, -4, -4)
    pool = np.random.default_rng(2).integers(97, 123, CHUNK * value_size + (1 << 20), dtype=np.uint8)
    now = system_clock()
    for index, part in enumerate(numbers):
        keys = digits[(part[:, None] >> shifts) & 15].reshape(-1)
        start = index * 4099 % (1 << 20)
        yield pa.table(
            {
                "key": binary(16, keys),
                "value": binary(value_size, pool[start : start + len(part) * value_size]),
                "timestamp": pa.array(np.full(len(part), now)),
            }
        )


def random_numbers(count: int, keys: int) -> Iterator[NDArray[np.int64]]:
    rng = np.random.default_rng(1)
    for start in range(0, count, CHUNK):
        yield rng.integers(0, keys, min(CHUNK, count - start))


def each_number_then_some_again(keys: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, keys + keys // 10, CHUNK):
        yield np.arange(start, min(start + CHUNK, keys + keys // 10)) % keys


def open_log(directory: Path) -> tuple[Log, ManualScheduler]:
    scheduler = ManualScheduler(system_clock)
    log = load(
        disk=Disk(),
        clock=system_clock,
        scheduler=scheduler,
        directory=directory,
        topic_partition=DIRTY,
        config=LogConfig.of(SETTINGS),
        high_watermark_follows_end=True,
    )
    return log, scheduler


def write_log(
    directory: Path, tables: Iterator[pa.Table], codec: Codec, *, rolls_for_each: bool = False
) -> None:
    """Writes a log that ends with an empty segment, so that all records can be cleaned.

    With `rolls_for_each`, each table becomes a segment of its own.
    """
    directory.mkdir(parents=True)
    log, _ = open_log(directory)
    options = BatchOptions(codec=codec, partition_leader_epoch=0)
    for table in tables:
        record_size = table.nbytes // table.num_rows
        batches = build_batches(
            table, options, base_offset=log.log_end_offset, batch_size=RECORDS_IN_A_BATCH * record_size
        )
        log.append_as_follower(b"".join(batches), leader_epoch=0)
        if rolls_for_each:
            log.roll()
    if not rolls_for_each:
        log.roll()
    log.close()


def copied(source: Path, target: Path) -> Path:
    """A copy to clean. The .log files are only linked, because a cleaner never writes to an old one."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix == ".log" and file.stat().st_size:
            os.link(file, target / file.name)
        else:
            shutil.copy2(file, target / file.name)
    return target


class Watched:
    """Looks at the anonymous memory whenever the cleaner calls `check_done`, and keeps the peak."""

    def __init__(self) -> None:
        self.peak_size = 0

    def __call__(self) -> None:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found is not None:
            self.peak_size = max(self.peak_size, int(found[1]) << 10)


def clean(
    log: Log,
    scheduler: ManualScheduler,
    offset_map: OffsetMap,
    start: int,
    watch: Callable[[], None] = lambda: None,
) -> CleanResult:
    def replace(new: LogSegment, old: Sequence[SegmentReader]) -> None:
        replace_segments(
            Disk(), log.segments, [new], old, scheduler=scheduler, producers=log.producers, delete_delay_ms=0
        )
        scheduler.run_due()

    dirty = DirtyLog(
        disk=Disk(),
        segments=log.segments.readers,
        config=log.config,
        first_dirty_offset=start,
        first_uncleanable_offset=log.segments.active.base_offset,
        last_records={},
    )
    return clean_log(dirty, offset_map, now_ms=system_clock(), replace_segments=replace, check_done=watch)


def clean_ours(source: Path, target: Path) -> float:
    log, scheduler = open_log(copied(source, target))
    offset_map = OffsetMap(DEFAULT_MAP_SIZE)
    start = perf_counter()
    clean(log, scheduler, offset_map, 0)
    seconds = perf_counter() - start
    log.close()
    shutil.rmtree(target)
    return seconds


def clean_theirs(cleaner: CleanerOracle, source: Path, target: Path, end_offset: int) -> float:
    """The seconds that the Java program measured for Kafka's cleaner, without opening the log."""
    answer = cleaner.clean(
        dir=str(copied(source, target)),
        config={key: str(value) for key, value in SETTINGS.items()},
        logStart=0,
        logEnd=end_offset,
        firstDirty=0,
        firstUncleanable=end_offset,
        now=system_clock(),
        mapBytes=DEFAULT_MAP_SIZE,
        ioBuffer=256 << 10,
    )
    shutil.rmtree(target)
    return float(answer["seconds"])


def digest_of(log: Log) -> str:
    """A digest of all remaining offsets."""
    digest, reader = hashlib.sha256(), RunReader()
    for segment in log.segments:
        with reader.read(segment.reader) as runs:
            for run in runs:
                digest.update(np.ascontiguousarray(run.rows["offset"]).tobytes())
    return digest.hexdigest()


def many_keys(root: Path, scale: float) -> float:
    """1.6 GB divided by the peak of memory; the log is cleaned in one pass and in several."""
    source = root / "many" / str(DIRTY)
    keys = int(MANY_KEYS * scale)
    write_log(source, chunks(each_number_then_some_again(keys), 10), Codec.NONE)
    watch, digests = Watched(), []
    for size, is_enough in ((LARGE_MAP_SIZE, True), (DEFAULT_MAP_SIZE, False)):
        map_size = int(size * scale)
        log, scheduler = open_log(copied(source, root / "copy" / str(DIRTY)))
        end, rounds, done = log.log_end_offset, 0, 0
        offset_map = OffsetMap(map_size)
        while done < end:
            done = clean(log, scheduler, offset_map, done, watch).end_offset
            rounds += 1
        print(f"{keys:,} keys with a map of {map_size:,} bytes: {rounds} passes")
        if (rounds == 1) is not is_enough:
            raise SystemExit("the large map must take one pass, and the default one several")
        digests.append(digest_of(log))
        log.close()
        del offset_map
    if digests[0] != digests[1]:
        raise SystemExit("one pass and several have left different records")
    return MEMORY_SIZE * scale / max(watch.peak_size, 1)


def main() -> None:
    rounds = Rounds(__doc__ or "")
    root = Path(tempfile.mkdtemp(prefix="stratalog-clean-"))
    try:
        rounds.state("clean_50m", many_keys(root, rounds.scale), 1.1)
        shutil.rmtree(root / "many")
        try:
            jars = resolve()
        except KafkaUnavailableError as error:
            print(f"clean_none and clean_zstd are left out: {error}")
            rounds.end()
        cleaner = CleanerOracle(jars, AS_SHIPPED)
        records = int(RECORDS * rounds.scale)
        for figure, codec, floor in (("clean_none", Codec.NONE, 8.0), ("clean_zstd", Codec.ZSTD, 4.0)):
            source = root / figure / str(DIRTY)
            tables = chunks(random_numbers(records, int(KEYS * rounds.scale)), VALUE_SIZE)
            write_log(source, tables, codec)
            rounds.compare_times(
                figure,
                ours=partial(clean_ours, source, root / "ours" / str(DIRTY)),
                rival=partial(clean_theirs, cleaner, source, root / "kafka" / str(DIRTY), records),
                floor=floor,
                unit="s",
                rounds=3,
            )
            shutil.rmtree(root / figure)
        cleaner.program.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    rounds.end()


if __name__ == "__main__":
    main()
