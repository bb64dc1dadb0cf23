"""How fast are log directories read into Arrow without Spark, and in how much memory?

The records have 16-byte keys and 100-byte values, in 4 partitions and batches of 32 KiB, not compressed, in
the page cache. All rivals check checksums.

`scan_vs_spark`: we read all 16 columns into one Arrow table. The rival is `toArrow()` of our own Spark source
in a running session of two cores; Spark also moves the rows into the JVM and back. `scan_vs_aiokafka`: on one
core, we read every field that aiokafka's compiled decoder returns from the same files. The least work
possible is one pass for the CRC, one for the varints and one copy of each column. `latest_vs_duckdb`: we look
for the newest record of each of 500,000 keys. The rival is DuckDB's `arg_max … GROUP BY key` over a scan of
the same log. `flat` has no rival: it is the peak memory of a process that scans 1 GB, divided by the peak for
8 GB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

import stratalog
from benchmarks.rounds import Rounds
from stratalog.records.columns import ALL_COLUMNS, KAFKA_COLUMNS
from stratalog.spark.session import session

RECORDS = 4_000_000
PARTITIONS = 4
RECORDS_IN_A_BATCH = 259  # about 32 KiB
KEYS = 500_000
VALUES = 32_768  # so many different ones
GIGABYTE = 8_000_000  # records
T0 = 1_700_000_000_000
EVERYTHING = {"includeHeaders": "true", "includeBatchMetadata": "true"}
# Spark's driver collects the whole table.
ENOUGH_MEMORY = {"spark.driver.memory": "8g", "spark.driver.maxResultSize": "0"}
PEAK = """
import resource, sys, stratalog
rows = sum(batch.num_rows for batch in stratalog.scan(sys.argv[1]).to_batches())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def fill(directory: Path, count: int, *, seed: int = 7) -> None:
    """Writes `count` records with our own log, with random keys. The number of keys is KEYS for RECORDS."""
    chance = np.random.default_rng(seed)
    texts = [(b'{"id": %8d, "text": "' % number).ljust(98, b"x") + b'"}' for number in range(VALUES)]
    values = pa.array(texts, pa.binary())
    keys = max(1, KEYS * count // RECORDS)
    with stratalog.open_log(directory, create=True, config={"segment.bytes": 128 << 20}) as log:
        for start in range(0, count, RECORDS_IN_A_BATCH):
            rows = min(RECORDS_IN_A_BATCH, count - start)
            numbers = chance.integers(0, keys, rows).tolist()
            log.append_arrow(
                pa.table(
                    {
                        "key": pa.array([b"key %012d" % number for number in numbers], pa.binary()),
                        "value": values.take(pa.array(chance.integers(0, VALUES, rows))),
                        "timestamp": pa.array(T0 + np.arange(start, start + rows)),
                    }
                )
            )


def linked(first: Path, other: Path) -> None:
    """Makes another partition of hard links to the same files, which take no room."""
    other.mkdir(parents=True)
    for file in first.iterdir():
        if file.name != "partition.metadata":
            os.link(file, other / file.name)


def scanned(directory: Path) -> int:
    rows: int = stratalog.scan(directory, columns=ALL_COLUMNS).to_table().num_rows
    return rows


def scanned_on_one_core(directory: Path) -> int:
    """Reads the fields that aiokafka has, batch by batch; returns the number of rows."""
    columns = (*KAFKA_COLUMNS, "headers")
    batches = stratalog.scan(directory, columns=columns, threads=1).to_batches()
    return sum(batch.num_rows for batch in batches)


def by_aiokafka(directory: Path) -> int:
    """Reads all fields of all records, file by file; returns the number of rows."""
    count = 0
    for path in sorted(directory.glob("*/*.log")):
        records = MemoryRecords(path.read_bytes())
        while records.has_next():
            batch = records.next_batch()
            assert batch.validate_crc()
            for record in batch:
                _ = record.offset, record.timestamp, record.timestamp_type, record.key, record.value
                _ = record.headers
                count += 1
    return count


def newest(directory: Path) -> int:
    rows: int = stratalog.scan(directory, columns=["key", "value", "offset"], latest=True).to_table().num_rows
    return rows


def newest_by_duckdb(directory: Path) -> int:
    records = stratalog.scan(directory, columns=["partition", "key", "value", "offset"])
    query = """
        SELECT partition, key, arg_max(value, "offset") AS value, max("offset") AS "offset"
        FROM records GROUP BY partition, key
    """
    with duckdb.connect() as connection:
        connection.register("records", records)
        rows: int = connection.sql(query).to_arrow_table().num_rows
        return rows


def peak(directory: Path, rows: int) -> int:
    """The peak memory of a process that scans the directory, in KiB."""
    command = [sys.executable, "-c", PEAK, str(directory)]
    found, size = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(found) == rows
    return int(size)


def main() -> None:
    rounds = Rounds(__doc__ or "")
    root = Path(tempfile.mkdtemp(prefix="stratalog-scan-"))
    count = int(RECORDS * rounds.scale) // PARTITIONS * PARTITIONS
    logs, large = root / "logs", root / "large"
    try:
        for partition in range(PARTITIONS):
            fill(logs / f"orders-{partition}", count // PARTITIONS, seed=partition)
        with session("scan", master="local[2]", settings=ENOUGH_MEMORY) as spark:
            reader = spark.read.format("stratalog").options(**EVERYTHING)
            assert reader.load(str(logs)).toArrow().num_rows == scanned(logs) == by_aiokafka(logs) == count
            rounds.compare(
                "scan_vs_spark",
                ours=lambda: scanned(logs),
                rival=lambda: reader.load(str(logs)).toArrow(),
                floor=4,
                work="rows",
                amount=count,
            )
        rounds.compare(
            "scan_vs_aiokafka",
            ours=lambda: scanned_on_one_core(logs),
            rival=lambda: by_aiokafka(logs),
            floor=4,
            work="rows",
            amount=count,
        )
        assert newest(logs) == newest_by_duckdb(logs)
        rounds.compare(
            "latest_vs_duckdb",
            ours=lambda: newest(logs),
            rival=lambda: newest_by_duckdb(logs),
            floor=1,
            work="rows",
            amount=count,
        )
        part = int(GIGABYTE * rounds.scale)
        fill(large / "one" / "orders-0", part)
        for partition in range(8):
            linked(large / "one" / "orders-0", large / "eight" / f"orders-{partition}")
        rounds.state("flat", peak(large / "one", part) / peak(large / "eight", 8 * part), 0.9)
    finally:
        shutil.rmtree(root)
    rounds.end()


if __name__ == "__main__":
    main()
