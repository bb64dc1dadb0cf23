"""Queries over log directories by DuckDB: the views, and errors in words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stratalog
from stratalog.duckdb import answer
from stratalog.errors import CorruptRecordError, UsageError
from stratalog.installing import install_command
from stratalog.jobs.reading.omissions import Omission, ignore_omission
from stratalog.jobs.reading.options import ReadOptions
from tests.jobs.decoding.registry import Registry
from tests.jobs.decoding.serializing import append
from tests.records.avro.values import record, written
from tests.tables.dumped import LOGS, dumped_commits
from tests.waiting import PATIENCE_S

CODECS_COUNT, TXN_COUNT = 120, 50  # records of these topics, by their dumps


def rows(query: str, path: str = LOGS, **options: str) -> list[tuple[object, ...]]:
    found = answer(ReadOptions.parse({"path": path, **options}), query, ignore_omission)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_each_topic_is_a_view() -> None:
    assert rows("SELECT (SELECT count(*) FROM codecs), (SELECT count(*) FROM txn)") == [
        (CODECS_COUNT, TXN_COUNT)
    ]
    assert ("txn", TXN_COUNT) in rows("SELECT topic, count(*) FROM kafka_records GROUP BY topic")
    assert {"codecs", "kafka_records", "kafka_partitions", "kafka_lag"} <= {
        str(name) for (name,) in rows("SHOW TABLES")
    }


def test_options_are_those_of_the_source() -> None:
    assert rows("SELECT count(*) FROM txn", isolation="read_committed") < [(TXN_COUNT,)]
    assert rows("SELECT count(*) FROM headers WHERE len(headers) > 0", includeHeaders="true") > [(0,)]


def test_tables_of_kafka_are_views() -> None:
    committed = rows('SELECT "group", topic, partition, "offset" FROM kafka_commits')
    assert set(committed) == dumped_commits()
    assert rows("SELECT max(lag) FROM kafka_lag WHERE topic = 'codecs'") == [(89,)]
    assert rows("""SELECT "endOffset" FROM kafka_partitions WHERE topic = 'trimmed'""") == [(30,)]
    assert rows("SELECT count(*) FROM kafka_metadata WHERE kind = 'TOPIC_RECORD'") > [(0,)]
    for name in ("groups", "members", "transactions"):
        rows(f"SELECT * FROM kafka_{name}")


def test_at_most_so_many_rows_are_there() -> None:
    options = ReadOptions.parse({"path": LOGS})

    assert answer(options, "SELECT * FROM codecs", ignore_omission, rows=7).num_rows == 7


def test_what_duckdb_has_against_a_query_is_told() -> None:
    with pytest.raises(UsageError, match=r'In DuckDB the column is written "offset", in double quotes'):
        rows("SELECT offset FROM codecs")
    with pytest.raises(UsageError, match='Referenced column "valeu" not found'):
        rows("SELECT valeu FROM codecs")
    with pytest.raises(UsageError, match="nothing does not exist"):
        rows("SELECT * FROM nothing")
    with pytest.raises(UsageError, match=r"does not exist\. Give the path"):
        rows("SELECT 1", path="/nowhere")


def test_variables_of_the_program_are_not_tables() -> None:
    secret = stratalog.scan(LOGS)

    with pytest.raises(UsageError, match="secret does not exist"):
        rows("SELECT * FROM secret")
    assert secret.columns


def test_names_that_differ_in_case_only_are_told_apart_by_their_topic(tmp_path: Path) -> None:
    for name in ("Orders-0", "orders-0", "bills-0"):
        stratalog.open_log(tmp_path / name, create=True).close()

    assert rows("SELECT count(*) FROM bills", path=str(tmp_path)) == [(0,)]
    with pytest.raises(UsageError, match="Orders and orders are the same name in SQL"):
        rows("SELECT * FROM orders", path=str(tmp_path))


def test_a_topic_that_a_text_names_is_not_read(tmp_path: Path) -> None:
    for name in ("Orders-0", "orders-0"):
        with stratalog.open_log(tmp_path / name, create=True) as log:
            log.append(b"value")

    where = "FROM kafka_records WHERE topic = 'orders'"
    assert rows(f"SELECT count(*) {where}", path=str(tmp_path)) == [(1,)]
    assert rows(f"PIVOT (SELECT topic, 1 AS n {where}) ON topic USING sum(n)", path=str(tmp_path)) == [(1,)]


@pytest.mark.parametrize("topic", ["kafka_records", "Kafka_Partitions"])
def test_a_topic_does_not_replace_a_view_of_its_name(tmp_path: Path, topic: str) -> None:
    for name in (f"{topic}-0", "orders-0"):
        stratalog.open_log(tmp_path / name, create=True).close()

    with pytest.raises(UsageError, match=f"{topic} is a topic here, and has the name of a view"):
        rows(f"SELECT * FROM {topic}", path=str(tmp_path))
    assert rows("SELECT count(*) FROM orders", path=str(tmp_path)) == [(0,)]


@pytest.mark.parametrize(
    ("name", "topic"), [("kafka_lag", "__consumer_offsets"), ("KAFKA_TRANSACTIONS", "__transaction_state")]
)
def test_a_table_of_a_missing_topic_says_which_one_is_missing(tmp_path: Path, name: str, topic: str) -> None:
    stratalog.open_log(tmp_path / "orders-0", create=True).close()

    said = f"{name.lower()} is read from the topic {topic}, which is not in {tmp_path}"
    with pytest.raises(UsageError, match=said):
        rows(f"SELECT count(*) FROM {name}", path=str(tmp_path))


def test_damage_is_our_error_or_left_out_and_told(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for _ in range(3):
            log.append(b"value")
    (path,) = (tmp_path / "orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[68] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptRecordError, match="from offset 0 on"):
        rows("SELECT * FROM orders", path=str(tmp_path))
    found: list[Omission] = []
    options = ReadOptions.parse({"path": str(tmp_path), "onCorruption": "skip"})
    assert answer(options, "SELECT * FROM orders", found.append).num_rows == 2
    assert [(each.first_offset, each.end_offset) for each in found] == [(0, 1)]


def test_without_duckdb_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['duckdb'] = None; import stratalog.duckdb"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)

    assert install_command("duckdb") in done.stderr


def test_a_query_sees_the_fields_of_values(tmp_path: Path) -> None:
    schema = record(("id", "long"), ("note", ["null", "string"]), name="Order")
    append(tmp_path, "orders", [b"\0\0\0\0\1" + written(schema, {"id": n, "note": None}) for n in range(9)])
    append(tmp_path, "users", [b"plain"])
    registry = Registry()
    registry.register("orders-value", {"schema": json.dumps(schema)})
    registry.write_topic(tmp_path)

    found = rows(
        "SELECT sum(value.id), min(valueSchemaId) FROM orders", str(tmp_path), valueEncoding="confluent"
    )

    assert found == [(36, 1)]
    with pytest.raises(UsageError, match="the topic users has no subject users-value"):
        rows("SELECT * FROM users", str(tmp_path), valueEncoding="confluent")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(value.id) FROM orders",
        'SELECT sum(o.value.id) FROM orders o JOIN orders p USING ("offset")',  # which DuckDB cannot list
    ],
)
def test_a_topic_whose_name_is_a_part_of_the_query_needs_no_schema(tmp_path: Path, query: str) -> None:
    schema = record(("id", "long"), name="Order")
    append(tmp_path, "orders", [b"\0\0\0\0\1" + written(schema, {"id": n}) for n in range(9)])
    append(tmp_path, "order", [b"plain"])
    append(tmp_path, "id", [b"plain"])
    registry = Registry()
    registry.register("orders-value", {"schema": json.dumps(schema)})
    registry.write_topic(tmp_path)

    assert rows(query, str(tmp_path), valueEncoding="confluent") == [(36,)]
