"""`compact --master`: the parts of a compaction (`log/cleaning/distributed.py`) on Spark.

Executors read the keys of each segment once; the rows, a hash of 16 bytes and an offset for each record, stay
on the executors' disks. Spark's own aggregation by key finds the newest version of each key, so there is no
bound on the number of keys. The offsets of replaced records then go to the task that rewrites their group,
one task for each group. If an executor is lost, its rows are read again: the same files give the same rows.
"""

from __future__ import annotations

import math
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from stratalog.engine.engine import pack, results_in_order
from stratalog.errors import StratalogError
from stratalog.files.disk import Disk
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.distributed import (
    CleaningPlan,
    RewrittenGroup,
    prove_group,
    read_keys,
    rewrite_group,
)
from stratalog.log.cleaning.transactions import OpenData, SegmentData
from stratalog.spark.engine import PACKS_PER_CORE, met_on
from stratalog.spark.plain_errors import plain_errors
from stratalog.spark.session import own_python
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from stratalog.spark.engine import SparkEngine

_ROWS = "low bigint, high bigint, offset bigint, cleaned int, is_version boolean, note binary"
_NEWEST = "max(CASE WHEN is_version THEN offset END) OVER (PARTITION BY low, high) AS newest"

# A row is about 56 bytes in the aggregation: a part has 3 to 110 MB.
FEWEST_ROWS, MOST_ROWS = 50_000, 2_000_000

_Value = TypeVar("_Value")
ToBatches = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class SparkParts:
    """Runs the parts of one cleaning; `close` releases what the executors keep."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine, self._spark = engine, engine.spark
        self._rows: DataFrame | None = None
        self._rows_count = 0

    def read_keys(self, plan: CleaningPlan) -> list[SegmentData]:
        from pyspark import StorageLevel

        sizes = [plan.stamps[number].size for number in range(plan.segments_count)]
        packs = pack(sizes, self._engine.packs_count)
        numbers = self._spark.range(0, len(packs), 1, len(packs))
        with own_python(self._engine.context):
            rows = numbers.mapInArrow(_key_reader(plan, packs), _ROWS)
        self._rows = rows.persist(StorageLevel.DISK_ONLY)
        notes = self._rows.where("note IS NOT NULL").select("note").collect()
        found, self._rows_count = {}, 0
        for host, number, count, value in (pickle.loads(row.note) for row in notes):
            found[number] = met_on(host, value)
            self._rows_count += count
        return [_raised(found[number]) for number in range(plan.segments_count)]

    def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> list[RewrittenGroup]:
        assert self._rows is not None
        parts = key_parts(self._rows_count, self._engine.cores)
        rows = self._rows.where("note IS NULL").repartition(parts, "low", "high")
        keys = rows.selectExpr("cleaned", "offset", _NEWEST)
        replaced = keys.where("offset < newest").select("cleaned", "offset")
        count = len(plan.groups)
        # A group without replaced records is rewritten too: tombstones may have reached their horizon.
        every = self._spark.range(0, count, 1, 1).selectExpr("CAST(id AS INT) AS cleaned", "-1L AS offset")
        by_group = every.unionAll(replaced).repartitionById(count, "cleaned")
        with own_python(self._engine.context):
            frame = by_group.mapInArrow(_rewriter(plan, before), "outcome binary")
        outcomes = [pickle.loads(row.outcome) for row in frame.collect()]
        found: dict[int, RewrittenGroup | StratalogError] = {
            number: met_on(host, value) for host, number, value in outcomes
        }
        return [_raised(found[number]) for number in range(count)]

    def prove(self, _plan: CleaningPlan, groups: Sequence[RewrittenGroup]) -> None:
        sizes = [group.segment.size for group in groups]
        results_in_order(self._engine.run(prove_group, groups, sizes=sizes))

    def close(self) -> None:
        if self._rows is not None:
            with suppress(StratalogError), plain_errors():  # Spark may be gone, and the rows with it
                self._rows.unpersist()
            self._rows = None


def key_parts(rows_count: int, cores: int) -> int:
    """In how many parts the rows of all keys are aggregated.

    Enough parts to keep all cores busy, unless such small parts take longer to start than to run; and so many
    that a core can sort each part in memory.
    """
    busy = min(cores * PACKS_PER_CORE, math.ceil(rows_count / FEWEST_ROWS))
    return max(1, busy, math.ceil(rows_count / MOST_ROWS))


def _key_reader(plan: CleaningPlan, packs: Sequence[Sequence[int]]) -> ToBatches:
    """The function of a worker: takes the numbers of packs of segments, and yields the rows of their records.

    The last row of each segment has a note: host, number of the segment, its rows, its transactions or error.
    """
    planned_by = __version__

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stratalog.spark.workers import prepare_worker, require_version

        require_version(planned_by)
        prepare_worker()
        disk = DiskReader()
        disk.close()  # files that an earlier job left open may have been replaced
        for batch in batches:
            for pack_number in batch.column(0).to_pylist():
                for number in packs[pack_number]:
                    yield from _rows_of(disk, plan, number)
        disk.close()

    return run


def _rows_of(disk: DiskReader, plan: CleaningPlan, number: int) -> Iterator[pa.RecordBatch]:
    import pyarrow

    schema = pyarrow.schema(
        [
            ("low", pyarrow.int64()),
            ("high", pyarrow.int64()),
            ("offset", pyarrow.int64()),
            ("cleaned", pyarrow.int32()),
            ("is_version", pyarrow.bool_()),
            ("note", pyarrow.binary()),
        ]
    )
    group = plan.group_of(number)
    rows_count = 0
    keys = read_keys(disk, plan, number)
    note: SegmentData | StratalogError
    while True:
        try:
            some = next(keys)
        except StopIteration as ended:
            note = ended.value
            break
        except StratalogError as error:
            note = error
            break
        count = len(some.offsets)
        rows_count += count
        hashes = np.ascontiguousarray(some.hashes.T).view(np.int64)
        columns = [hashes[0], hashes[1], some.offsets, np.full(count, group, np.int32), some.is_version]
        arrays = [*map(pyarrow.array, columns), pyarrow.nulls(count, pyarrow.binary())]
        yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
    last = [None, None, None, group, None, pickle.dumps((socket.gethostname(), number, rows_count, note))]
    yield pyarrow.RecordBatch.from_pylist([dict(zip(schema.names, last, strict=True))], schema=schema)


def _rewriter(plan: CleaningPlan, before: Sequence[OpenData]) -> ToBatches:
    """The function of a worker: takes the replaced offsets of one group, and yields its pickled outcome."""
    planned_by = __version__

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        from stratalog.spark.workers import prepare_worker, require_version

        require_version(planned_by)
        prepare_worker()
        offsets: dict[int, list[NDArray[np.int64]]] = {}
        for batch in batches:
            groups = batch.column(0).to_numpy()
            for number in np.unique(groups).tolist():
                offsets.setdefault(number, []).append(batch.column(1).to_numpy()[groups == number])
        disk = Disk(require_owner=True)
        disk.close()
        outcomes = []
        for number, found in offsets.items():
            replaced = np.concatenate(found)
            try:
                outcome: object = rewrite_group(disk, plan, number, before[number], replaced)
            except StratalogError as error:
                outcome = error
            outcomes.append(pickle.dumps((socket.gethostname(), number, outcome)))
        disk.close()
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(outcomes, pyarrow.binary())], names=["outcome"])

    return run


def _raised(value: _Value | StratalogError) -> _Value:
    if isinstance(value, StratalogError):
        raise value
    return value
