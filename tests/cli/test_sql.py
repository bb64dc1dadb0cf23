"""`stratalog sql` without Spark: what is refused before Spark starts, and how cells are written.

tests/spark/test_sql.py runs queries.
"""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from stratalog.cli import main
from stratalog.cli.output import Output
from stratalog.cli.sql import cell_text, print_table

CLEAN = str(Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["SELECT 1"], "give the log directories, or --config, and then the query"),
        (["nowhere", "SELECT 1"], "nowhere does not exist"),
        ([CLEAN, "SELECT 1", "--option", "onCorruption"], "'onCorruption' is not NAME=VALUE"),
        (
            [CLEAN, "SELECT 1", "--headers", "--option", "INCLUDEHEADERS=true"],
            "includeheaders is given twice",
        ),
        ([CLEAN, "SELECT 1", "--format", "xml"], "'xml' is not one of"),
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

    assert json.loads(capsys.readouterr().err)["error"] == "UsageError"


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
