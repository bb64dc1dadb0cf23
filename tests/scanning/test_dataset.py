"""A scan as a dataset: only the columns and rows that a query asks for."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pytest

import stratalog
from stratalog.errors import CorruptRecordError, StratalogError
from stratalog.jobs.reading.omissions import ignore_omission
from stratalog.scanning.asking import read_options
from stratalog.scanning.dataset import ScanDataset
from stratalog.scanning.sources import RecordSource
from tests.profile import examples
from tests.scanning.querying import make_logs, random_query

COLUMNS = ["topic", "partition", "offset", "timestamp", "value"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_logs(tmp_path_factory.mktemp("dataset"))


def dataset(logs: Path, errors: list[StratalogError] | None = None) -> ScanDataset:
    source = RecordSource.of(read_options(logs), 1)
    return ScanDataset(source, COLUMNS, ignore_omission, [].append if errors is None else errors.append)


def test_a_filter_is_applied_and_columns_are_chosen(logs: Path) -> None:
    scanner = dataset(logs).scanner(
        columns=["value"], filter=(pc.field("offset") == 7) & (pc.field("topic") == "bills")
    )

    assert scanner.projected_schema.names == ["value"]
    assert scanner.to_reader().read_all().to_pylist() == [{"value": b"value 7"}]
    assert dataset(logs).scanner().to_reader().read_all().schema.names == COLUMNS


def test_queries_of_duckdb_give_the_same_rows_as_filtering_afterwards(logs: Path) -> None:
    records = dataset(logs)
    everything = stratalog.scan(logs, columns=COLUMNS).to_table()
    chance = random.Random(23)

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("records", records)
        for _ in range(examples(500)):
            query = random_query(chance)
            text = f'SELECT topic, partition, "offset" FROM records WHERE {query.to_sql()} ORDER BY ALL'

            found = connection.sql(text).fetchall()

            rows = everything.filter(query.to_arrow()).select(["topic", "partition", "offset"]).to_pylist()
            assert found == sorted(tuple(row.values()) for row in rows), text


def test_an_error_is_kept_with_its_type(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"value")
    (path,) = (tmp_path / "orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[68] ^= 1
    path.write_bytes(data)
    errors: list[StratalogError] = []

    with duckdb.connect() as connection:
        connection.register("records", dataset(tmp_path, errors))
        with pytest.raises(duckdb.Error, match="from offset 0 on"):
            connection.sql("SELECT * FROM records").fetchall()
    assert isinstance(errors[0], CorruptRecordError)
