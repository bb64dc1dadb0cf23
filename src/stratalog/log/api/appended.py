"""What `append_arrow` takes from a table: its columns, and a time for every row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from stratalog.errors import UsageError
from stratalog.records.columns import ALL_COLUMNS

APPENDED = ("key", "value", "timestamp", "headers")


def appended_columns(table: pa.Table | pa.RecordBatch, now_ms: int) -> pa.Table:
    """The columns to append, with the present time in each row that has no timestamp, as in `append`.

    Other columns that a read returns, such as `offset`, are ignored, so that the result of a read can be
    appended. Any other column would be lost, so it is a UsageError. A column to append that appears twice is
    a UsageError too.
    """
    names = table.schema.names
    unknown = sorted({name for name in names if name not in APPENDED and name not in ALL_COLUMNS})
    if unknown:
        raise UsageError(
            f"append_arrow does not know the columns {', '.join(unknown)}: it appends {', '.join(APPENDED)}."
        )
    twice = [name for name in APPENDED if names.count(name) > 1]
    if twice:
        raise UsageError(f"the table has the column {twice[0]} {names.count(twice[0])} times.")
    whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    return _with_times(whole.select([name for name in APPENDED if name in names]), now_ms)


def _with_times(table: pa.Table, now_ms: int) -> pa.Table:
    now = pa.scalar(now_ms, pa.int64())
    if "timestamp" not in table.schema.names:
        return table.append_column("timestamp", pa.repeat(now, table.num_rows))
    times = table["timestamp"]
    if not times.null_count:
        return table
    if pa.types.is_timestamp(times.type):
        now = pa.scalar(now_ms, pa.timestamp("ms", times.type.tz)).cast(times.type)
    elif pa.types.is_null(times.type):
        times = times.cast(pa.int64())
    filled = pc.fill_null(times, now.cast(times.type))
    return table.set_column(table.schema.names.index("timestamp"), "timestamp", filled)
