"""Queries over views of topics, by the functions and by the commands, as users ask them."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.cli import main
from stratalog.errors import UsageError
from stratalog.log.new_records import NewRecord
from tests.spark.damaged import damaged_log
from tests.waiting import PATIENCE_S

CLEAN = str(Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs")
CODECS_COUNT, TXN_COUNT = 120, 50  # records of these topics, by their dumps
T0 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


@pytest.fixture
def logs(tmp_path: Path) -> str:
    with stratalog.open_log(tmp_path / "logs" / "web.clicks-0", create=True) as log:
        log.append_many([NewRecord(b"v%d" % n, b"k\xff", (("h", b"x"),), T0 + n * 1000) for n in range(5)])
    return str(tmp_path / "logs")


@pytest.mark.usefixtures("spark")
def test_topics_are_joined_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT (SELECT count(*) FROM codecs) AS a, (SELECT count(*) FROM txn) AS b"

    assert main.run(["sql", CLEAN, query, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a": CODECS_COUNT, "b": TXN_COUNT}


@pytest.mark.usefixtures("spark")
def test_rows_are_a_table_csv_or_json(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT offset, key, value, timestamp, headers FROM `web.clicks` ORDER BY offset"

    main.run(["sql", logs, query, "--format", "csv", "--headers"])
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["offset", "key", "value", "timestamp", "headers"]
    assert rows[1] == ["0", "k\\xff", "v0", "2023-11-14T22:13:20+00:00", '[{"key": "h", "value": "x"}]']
    assert len(rows) == 6
    main.run(["sql", logs, query, "--format", "json", "--headers"])
    assert json.loads(capsys.readouterr().out.splitlines()[4])["value"] == "v4"
    assert main.run(["sql", logs, query, "--headers", "--limit", "2"]) == 0
    printed = capsys.readouterr()
    assert "v1" in printed.out
    assert "v2" not in printed.out
    assert "These are the first 2 rows." in printed.err


@pytest.mark.usefixtures("spark")
def test_columns_of_one_name_stay_apart(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT a.offset, b.offset FROM `web.clicks` a JOIN `web.clicks` b ON a.offset = b.offset + 1"

    main.run(["sql", logs, f"{query} ORDER BY 1", "--format", "csv"])

    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [["offset", "offset"], *([f"{n + 1}", f"{n}"] for n in range(4))]
    assert main.run(["sql", logs, query, "--format", "json"]) == 2
    assert "two columns are named offset" in capsys.readouterr().err


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_time_beyond_all_calendars_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    config = {"message.timestamp.after.max.ms": 2**63 - 1}
    with stratalog.open_log(tmp_path / "odd-0", create=True, config=config) as log:
        log.append_many([NewRecord(b"late", None, (), 2**62), NewRecord(b"now", None, (), T0)])

    assert main.run(["sql", str(tmp_path), "SELECT timestamp FROM odd", "--format", form]) == 0

    printed = capsys.readouterr().out
    assert "294247-01-10T04:00:54.775000+00:00" in printed  # 2^63 microseconds, to the millisecond
    assert "2023-11-14T22:13:20+00:00" in printed


@pytest.mark.usefixtures("spark")
def test_times_prune_every_view(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    times = ["--since", "2023-11-14T22:13:21", "--until", "2023-11-14T22:13:23"]

    main.run(["sql", logs, "SELECT offset FROM kafka_records ORDER BY 1", *times, "--format", "csv"])

    assert capsys.readouterr().out.split() == ["offset", "1", "2"]


@pytest.mark.usefixtures("spark")
def test_kafka_tells_about_itself(capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT DISTINCT group FROM kafka_commits WHERE topic = 'codecs' AND group = 'classic'"

    main.run(["sql", CLEAN, query, "--format", "json"])

    assert json.loads(capsys.readouterr().out) == {"group": "classic"}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELEC 1", "Syntax error at or near 'SELEC'"),
        ("SELECT nothing FROM codecs", "nothing"),
        ("SELECT * FROM nobodys_topic", "nobodys_topic"),
    ],
)
def test_a_query_that_makes_no_sense_is_wrong_usage(
    query: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["sql", CLEAN, query]) == 2

    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert "\tat " not in said


@pytest.mark.usefixtures("spark")
def test_the_command_exports(logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export", logs, "--to", str(tmp_path / "out"), "--key", "utf8", "--columns", "key,offset"]

    assert main.run([*arguments, "--json"]) == 1  # a key is not text
    first = json.loads(capsys.readouterr().out)
    assert main.run(arguments) == 0
    second = capsys.readouterr()

    assert (first["rows"], first["undecoded"], first["files"]) == (5, 5, 1)
    assert "already has all records" in second.out


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_records_that_a_query_skips_are_told_and_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """A table shows its first rows only, so Spark stops the tasks before their end."""
    logs = str(damaged_log(tmp_path, count=2000))
    command = ["sql", logs, "SELECT offset FROM orders", "--format", form]

    assert main.run([*command, "--option", "onCorruption=skip"]) == 1

    said = capsys.readouterr().err
    assert "records were left out: " in said
    assert "orders-0: offset 0, " in said
    if form != "table":
        assert "2 offsets at most" in said
        assert "at 2 places of 1 partition" in said


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["table", "json"])
def test_values_that_a_query_could_not_get_decoded_are_told_and_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([NewRecord(b"{" if n % 50 == 7 else b"1") for n in range(200)])
    command = ["sql", str(tmp_path), "SELECT value FROM orders", "--format", form, "--value", "json"]

    assert main.run(command) == 1

    said = capsys.readouterr().err
    assert "4 values of 1 partition could not be decoded" in said
    assert "orders-0: 4 values at offsets 7 to 157: it is not JSON" in said


@pytest.mark.usefixtures("spark")
def test_lost_offsets_that_a_query_does_without_are_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sql", CLEAN, "SELECT count(*) AS n FROM trimmed", "--format", "csv"]
    command += ["--option", "failOnDataLoss=false", "--option", 'startingOffsets={"trimmed": {"0": 3}}']

    assert main.run(command) == 1

    printed = capsys.readouterr()
    assert printed.out == "n\n13\n"
    assert "trimmed-0: offsets 3 to 16: startingOffsets asks for them" in printed.err


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_records_that_an_export_skips_are_told_and_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    logs = str(damaged_log(tmp_path / "logs"))
    command = ["export", logs, "--to", str(tmp_path / "out"), "--format", form]

    assert main.run([*command, "--option", "onCorruption=skip"]) == 1
    assert "orders-0: offset 50, " in capsys.readouterr().err
    assert main.run([*command, "--option", "onCorruption=skip", "--json"]) == 0  # has all it can have
    assert json.loads(capsys.readouterr().out)["omissions"] == []


@pytest.mark.usefixtures("spark")
def test_an_export_of_a_wrong_topic_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["export", CLEAN, "--to", str(tmp_path / "out"), "--topic", "none"]) == 2

    assert "subscribe names none, which is not in" in capsys.readouterr().err


def test_a_query_leaves_nothing_where_it_was_asked(tmp_path: Path, archived: dict[str, str]) -> None:
    shutil.copytree(CLEAN, tmp_path / "data")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    # For a name that is not a topic, Spark looks among its tables, and creates a folder for them.
    command = [sys.executable, "-m", "stratalog.cli.main", "sql", ".", "SELECT * FROM orders"]

    done = subprocess.run(
        [*command, "--master", "local[1]"],
        cwd=tmp_path / "data",
        env=archived,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 2, done.stderr
    assert "`orders` cannot be found" in done.stderr
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_names_that_differ_in_case_only_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    from stratalog.spark.views import make_views

    for name in ("Orders-0", "orders-0"):
        stratalog.open_log(tmp_path / name, create=True).close()

    with pytest.raises(UsageError, match="Orders and orders are the same name in SQL"):
        make_views(spark, [tmp_path], "SELECT 1 FROM orders")
