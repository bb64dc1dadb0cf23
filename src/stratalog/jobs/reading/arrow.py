"""Arrow batches of a size that suits Spark: small ones are joined before they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from stratalog.errors import StratalogError, UsageError

# In Spark, a row costs no less in a batch larger than 4,000 rows or a megabyte.
ENOUGH_ROWS = 4000
ENOUGH_BYTES = 1 << 20


def assembled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order; only the last batch, or the one before an error, may be small."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    try:
        for batch in batches:
            if not waiting and (batch.num_rows >= ENOUGH_ROWS or batch.nbytes >= ENOUGH_BYTES):
                yield batch
                continue
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= ENOUGH_ROWS or size >= ENOUGH_BYTES:
                yield _together(waiting)
                waiting, rows, size = [], 0, 0
    except StratalogError:
        if waiting:
            yield _together(waiting)
        raise
    if waiting:
        yield _together(waiting)


def without_columns(rows: int) -> pa.RecordBatch:
    """A batch with this many rows and no columns."""
    return pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([])))


def placed(batch: pa.RecordBatch, columns: Sequence[str], position: int) -> pa.RecordBatch:
    """The batch; its column `position`, if it has one, counts from the beginning of the file."""
    if "position" not in columns:
        return batch
    at = list(columns).index("position")
    arrays = list(batch.columns)
    arrays[at] = pa.array(np.asarray(arrays[at]) + position)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        return without_columns(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)


def with_nullability(batches: Iterable[pa.RecordBatch], nullable: Sequence[bool]) -> Iterator[pa.RecordBatch]:
    """The batches, with columns marked not null as in Spark's schema: Spark compares the two schemas.

    UsageError for a null in such a column: Spark would assume that there is none and compute wrong results.
    """
    if all(nullable):
        yield from batches
        return
    for batch in batches:
        for column, name, may in zip(batch.columns, batch.schema.names, nullable, strict=True):
            if not may and column.null_count:
                raise UsageError(
                    f"the schema says that {name} is not null, but it is null in {column.null_count} of "
                    f"{batch.num_rows} records: leave NOT NULL out of the schema."
                )
        fields = [field.with_nullable(may) for field, may in zip(batch.schema, nullable, strict=True)]
        yield pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))
