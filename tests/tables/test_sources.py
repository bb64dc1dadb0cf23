"""Tables that are computed when they are read."""

from __future__ import annotations

import pyarrow as pa

from stratalog.jobs.reading.narrowing import everything
from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission, ignore_omission
from stratalog.scanning.scan import Scan
from stratalog.tables.sources import ComputedSource, DecodedSource, table_options
from tests.tables.dumped import LOGS

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string())])
LOST = Omission(
    topic="orders", partition=0, kind=OmissionKind.LOSS, first_offset=1, end_offset=2, why="it is gone."
)


def test_a_computed_table_is_computed_for_each_reading() -> None:
    calls: list[int] = []

    def compute(_: OnOmission) -> pa.Table:
        calls.append(1)
        return pa.table({"a": [1, 2, len(calls)], "b": ["x", None, "z"]})

    scan = Scan(ComputedSource(schema=SCHEMA, compute=compute), ["b", "a"])

    assert scan.to_table().to_pydict() == {"b": ["x", None, "z"], "a": [1, 2, 1]}
    assert scan.to_table()["a"].to_pylist() == [1, 2, 2]
    assert scan.count() == 3
    assert len(calls) == 3


def test_what_it_leaves_out_is_told() -> None:
    found: list[Omission] = []

    def compute(on_omission: OnOmission) -> pa.Table:
        on_omission(LOST)
        return SCHEMA.empty_table()

    source = ComputedSource(schema=SCHEMA, compute=compute)
    assert list(source.batches(["a"], narrowing=everything, on_omission=found.append)) == []
    assert found == [LOST]


def test_decoded_records_have_the_columns_that_are_asked_for() -> None:
    source = DecodedSource(options=table_options(LOGS, "transaction_state"))

    batches = list(source.batches(["status"], narrowing=everything, on_omission=ignore_omission))
    assert {batch.schema.names[0] for batch in batches} == {"status"}
    assert sum(batch.num_rows for batch in batches) == 41
