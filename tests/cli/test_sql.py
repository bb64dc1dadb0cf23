"""`stratalog sql` without Spark: what is refused before Spark starts, and how cells are written.

tests/spark/test_sql.py runs queries.
"""

from __future__ import annotations

import datetime
import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import stratalog
from stratalog.cli import main
from stratalog.cli.output import Output
from stratalog.cli.sql import cell_text, print_table
from tests.waiting import PATIENCE_S

CLEAN = str(Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["SELECT 1"], "give the log directories, or --config, and then the query"),
        (["nowhere", "SELECT 1"], "nowhere does not exist"),
        ([CLEAN, "SELECT 1", "--option", "onCorruption"], "'onCorruption' is not NAME=VALUE"),
        (
            [CLEAN, "SELECT 1", "--headers", "--option", "INCLUDEHEADERS=true"],
            "INCLUDEHEADERS is given twice",
        ),
        ([CLEAN, "SELECT 1", "--format", "xml"], "'xml' is not one of"),
        ([CLEAN, "SELECT value.id FROM codecs", "--value", "confluent"], "the topic _schemas is not in"),
        ([], "Missing argument"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["sql", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_errors_are_json_where_rows_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["sql", "nowhere", "SELECT 1", "--format", "json"]) == 2

    assert json.loads(capsys.readouterr().err)["error"] == "MissingPathError"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (b"plain", "plain"),
        (b"a\xffb", "a\\xffb"),
        ("text", "text"),
        (17, "17"),
        (1.5, "1.5"),
        (True, "true"),
        (Decimal("1.50"), "1.50"),
        (datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC), "2026-11-15T12:00:00+00:00"),
        (datetime.date(2026, 11, 15), "2026-11-15"),
        ([{"key": "h", "value": b"v"}], '[{"key": "h", "value": "v"}]'),
        ([1.5, float("nan"), -float("inf")], '[1.5, "NaN", "-Infinity"]'),
    ],
)
def test_a_cell_is_text(cell: object, text: str) -> None:
    assert cell_text(cell) == text


def test_what_a_record_has_in_it_is_shown_and_does_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    found = pa.table({"value": [b"user:id:7", b"[red]x", b"\x1b[31mred\x07", "Größe".encode(), b"a\rb"]})

    print_table(Output(), found, 10)

    printed = capsys.readouterr().out
    for text in ("user:id:7", "[red]x", "\\x1b[31mred\\x07", "Größe", "a\\rb"):
        assert text in printed
    assert "\x1b" not in printed


def test_a_day_beyond_all_calendars_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Output(), pa.table({"day": pa.array([106_751_991, 0, None], pa.date32())}), 10)

    printed = capsys.readouterr().out
    assert "294247-01-10" in printed  # the last day that has microseconds since 1970 in 64 bits
    assert "1970-01-01" in printed


def by_duckdb(path: str, query: str, *options: str) -> int:
    return main.run(["sql", path, query, "--backend", "duckdb", *options])


def test_duckdb_answers_without_java(tmp_path: Path) -> None:
    """In a process whose PATH has no Java."""
    bare = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "stratalog.cli.main", "sql", CLEAN, "--backend", "duckdb"]

    done = subprocess.run(
        [*command, "SELECT count(*) AS n FROM codecs", "--format", "json"],
        env=bare,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert (done.returncode, done.stdout) == (0, '{"n": 120}\n')


def test_rows_of_duckdb_are_a_table_csv_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    query = 'SELECT "offset", key, timestamp FROM codecs ORDER BY "offset"'

    assert by_duckdb(CLEAN, query, "--format", "csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], len(lines)) == ("offset,key,timestamp", 121)
    assert lines[1].endswith("2023-11-14T22:13:20+00:00")
    assert by_duckdb(CLEAN, query, "--limit", "2", "--since", "2001-01-01") == 0
    assert "These are the first 2 rows." in capsys.readouterr().err
    assert by_duckdb(CLEAN, "SELECT offset FROM codecs") == 2
    assert "in double quotes" in capsys.readouterr().err


def test_what_duckdb_leaves_out_is_told_and_exits_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"one")
        log.append(b"two")
    (path,) = (tmp_path / "orders-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[68] ^= 1
    path.write_bytes(data)

    assert by_duckdb(str(tmp_path), "SELECT count(*) FROM orders", "--option", "onCorruption=skip") == 1
    assert "records were left out: 1 offset at most" in capsys.readouterr().err


def test_values_that_duckdb_could_not_get_decoded_are_told_and_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        for value in (b"1", b"{", b"2"):
            log.append(value)

    assert by_duckdb(str(tmp_path), "SELECT sum(value::INT) FROM orders", "--value", "json") == 1
    assert "1 value of 1 partition could not be decoded" in (said := capsys.readouterr().err)
    assert "orders-0: 1 value at offset 1: it is not JSON" in said
    assert by_duckdb(str(tmp_path), "SELECT count(*) FROM orders", "--value", "json") == 0


def test_times_that_contradict_each_other_are_told_as_by_cat(capsys: pytest.CaptureFixture[str]) -> None:
    times = ["--since", "2026-01-02", "--until", "1767225600000"]

    assert by_duckdb(CLEAN, "SELECT 1", *times) == 2
    assert "stratalog: --since is later than --until, so there is nothing" in capsys.readouterr().err


def test_a_time_in_milliseconds_was_refused_and_seconds_had_no_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    query = "SELECT count(*) AS n FROM rolled"

    assert by_duckdb(CLEAN, query, "--until", "1794960494000") == 0
    assert capsys.readouterr().err == ""
    assert by_duckdb(CLEAN, query, "--until", "1794960494") == 0
    assert "If 2026-11-18 is meant, write 1794960494000." in capsys.readouterr().err


def test_null_and_empty_text_are_told_apart_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    """By DuckDB's own reader of CSV."""
    query = """SELECT * FROM (VALUES (1, NULL, ''), (2, 'a', 'say "b", c'), (3, E'x\\ny', ' '))"""
    columns = "AS t(number, one, two)"
    assert by_duckdb(CLEAN, f"{query} {columns}", "--format", "csv") == 0

    printed = capsys.readouterr().out
    assert printed.splitlines()[:3] == ["number,one,two", '1,,""', '2,a,"say ""b"", c"']
    options: dict[str, Any] = {"all_varchar": True, "allow_quoted_nulls": False}
    read = duckdb.read_csv(io.StringIO(printed), **options).fetchall()
    assert read == [("1", None, ""), ("2", "a", 'say "b", c'), ("3", "x\ny", " ")]
