"""Small batches travel together, and large ones alone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from stratalog.errors import CorruptRecordError, UsageError
from stratalog.jobs.reading import arrow
from stratalog.jobs.reading.read import read_task
from stratalog.records.columns import arrow_schema
from tests.jobs.reading.making import Made, plan


def test_without_columns_rows_can_be_counted(made_log: Made) -> None:
    batches = [batch for task in plan(made_log.path) for batch in read_task(task, ())]

    assert {batch.num_columns for batch in batches} == {0}
    assert sum(batch.num_rows for batch in batches) == len(made_log.records)


def test_small_batches_travel_together(made_log: Made) -> None:
    (task,) = plan(made_log.path)

    (batch,) = read_task(task, ("offset", "value"))

    assert batch.num_rows == len(made_log.records)
    assert batch.schema == arrow_schema(("offset", "value"))


def test_a_large_batch_travels_alone() -> None:
    small, large = (pa.RecordBatch.from_pydict({"n": range(count)}) for count in (10, 5000))

    together = list(arrow.assembled([small, small, large, large, small]))

    assert [batch.num_rows for batch in together] == [5020, 5000, 10]


def test_a_null_in_a_column_that_is_called_not_null_is_refused() -> None:
    """Spark would answer a query for nulls from the schema, without looking at the values."""
    batch = pa.RecordBatch.from_pydict({"key": [b"k", None], "offset": [1, 2]})

    (found,) = arrow.with_nullability([batch], [True, False])
    assert [field.nullable for field in found.schema] == [True, False]
    with pytest.raises(UsageError, match="key is not null, but it is null in 1 of 2 records"):
        list(arrow.with_nullability([batch], [False, False]))


def test_rows_just_before_an_error_were_lost() -> None:
    def damaged() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"offset": [1, 2]})
        yield pa.RecordBatch.from_pydict({"offset": [3]})
        raise CorruptRecordError("torn", position=7)

    found = arrow.assembled(damaged())

    assert next(found).to_pydict() == {"offset": [1, 2, 3]}
    with pytest.raises(CorruptRecordError):
        next(found)
