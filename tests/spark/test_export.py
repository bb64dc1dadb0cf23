"""Exports on Spark: Parquet by the tasks, other formats by Spark's writers, each read back by Spark."""

from __future__ import annotations

import csv
import datetime
import io
from pathlib import Path

import fastavro
import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

import stratalog
from stratalog.engine.progress import Progress
from stratalog.errors import CorruptRecordError, UsageError
from stratalog.jobs.reading.omissions import OmissionWarning
from stratalog.log.new_records import NewRecord
from stratalog.spark.export import export
from stratalog.spark.frames import read
from tests.spark.damaged import damaged_log

T0 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
CLEAN = str(Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs")
TOPICS = ["codecs", "headers", "txn", "rolled"]
KEYS = ("topic", "partition", "offset")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """20 records of one topic, two hours apart."""
    with stratalog.open_log(tmp_path / "logs" / "orders-0", create=True) as log:
        for number in range(20):
            log.append_many([NewRecord(b'{"n": %d}' % number, b"k", (), T0 + number * 7_200_000)])
    return tmp_path / "logs"


def append(logs: Path, *values: bytes) -> None:
    with stratalog.open_log(logs / "orders-0") as log:
        log.append_many([NewRecord(value, b"k", (), T0) for value in values])


def offsets(spark: SparkSession, target: Path, form: str = "parquet") -> list[int]:
    return sorted(row.offset for row in spark.read.format(form).load(str(target)).collect())


def test_parquet_has_the_rows_that_the_source_gives(spark: SparkSession, tmp_path: Path) -> None:
    report = export(spark, CLEAN, tmp_path / "out", topics=TOPICS, includeHeaders=True)

    ours = spark.read.parquet(str(tmp_path / "out"))
    source = read(spark, CLEAN, topics=TOPICS, includeHeaders=True)
    assert report.rows == source.count()
    columns = [name for name in source.columns if name != "headers"]
    assert ours.select(columns).exceptAll(source.select(columns)).count() == 0
    assert source.select(columns).exceptAll(ours.select(columns)).count() == 0
    with_headers = {row[KEYS[2]]: row.headers for row in ours.where("topic = 'headers'").collect()}
    assert with_headers == {row.offset: row.headers for row in source.where("topic = 'headers'").collect()}


def test_a_filter_on_the_day_reads_only_its_files(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    export(spark, logs, tmp_path / "out")

    of_a_day = spark.read.parquet(str(tmp_path / "out")).where("topic = 'orders' AND date = '2023-11-15'")

    assert of_a_day.count() == 12
    assert of_a_day.first().date == datetime.date(2023, 11, 15)


def test_the_committed_records_only(spark: SparkSession, tmp_path: Path) -> None:
    export(spark, CLEAN, tmp_path / "out", topics="txn", isolation="read_committed")

    expected = read(spark, CLEAN, topics="txn", isolation="read_committed").select("offset").collect()
    assert offsets(spark, tmp_path / "out") == sorted(row.offset for row in expected)


def test_running_again_takes_what_is_new(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    assert export(spark, logs, tmp_path / "out", on_progress=seen.append).rows == 20
    append(logs, b"new")

    assert export(spark, logs, tmp_path / "out").rows == 1
    assert offsets(spark, tmp_path / "out") == list(range(21))
    assert seen[-1].bytes_done == seen[-1].bytes_total > 0


def test_damage_is_our_own_error_and_the_next_run_goes_on(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    log = next((logs / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF
    log.write_bytes(data)

    with pytest.raises(CorruptRecordError, match="onCorruption=skip"):
        export(spark, logs, tmp_path / "out")

    with pytest.warns(OmissionWarning, match="1 offset at most"):
        assert export(spark, logs, tmp_path / "out", onCorruption="skip").taken_up
    assert offsets(spark, tmp_path / "out") == list(range(1, 20))


@pytest.mark.parametrize("form", ["json", "csv", "orc"])
def test_spark_writes_other_formats(spark: SparkSession, logs: Path, tmp_path: Path, form: str) -> None:
    more = {"header": "true", "escape": '"'} if form == "csv" else {}
    seen: list[Progress] = []

    report = export(
        spark,
        logs,
        tmp_path / "out",
        format=form,
        value="utf8",
        writer_options=more,
        on_progress=seen.append,
        includeHeaders=True,
    )
    append(logs, b"new", b"\xff")
    again = export(
        spark, logs, tmp_path / "out", format=form, value="utf8", writer_options=more, includeHeaders=True
    )

    assert (report.rows, report.undecoded, again.rows, again.undecoded) == (20, 0, 2, 1)
    frame = spark.read.format(form).options(**more).load(str(tmp_path / "out"))
    rows = sorted(frame.collect(), key=lambda row: int(row.offset))
    assert [row.value for row in rows] == [f'{{"n": {number}}}' for number in range(20)] + ["new", None]
    assert {row.topic for row in rows} == {"orders"}
    assert rows[0].date == datetime.date(2023, 11, 14)


NASTY = [
    "plain",
    "",
    "  blanks ",
    'quo"te',
    '"',
    '""',
    '"quoted"',
    "com,ma",
    "new\nline",
    "\n",
    "\rcr",
    "a\rb",
    "crlf\r\nx",
    "\\",
    "back\\slash",
    'back\\"slash',
    '\\""',
    "ends with a backslash\\",
    'all, of\n"them"\\',
    "tab\t",
    "#x",
    "'",
    "null",
    "NaN",
    "42",
    "\u00e9\u6f22\U0001f600",
    "\u2028\u0085",
    None,
]


@pytest.fixture(scope="module")
def nasty_csv(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV file with a row for each of these values, in their order."""
    home = tmp_path_factory.mktemp("csv")
    with stratalog.open_log(home / "logs" / "orders-0", create=True) as log:
        values = [None if text is None else text.encode() for text in NASTY]
        log.append_many([NewRecord(value, None, (), T0) for value in values])
    export(
        spark,
        home / "logs",
        home / "out",
        format="csv",
        value="utf8",
        columns=["offset", "value", "partition"],
        writer_options={"header": "true"},
    )
    (path,) = (home / "out").rglob("*.csv")
    return path


def test_csv_that_pandas_reads_has_the_values(nasty_csv: Path) -> None:
    pandas = pytest.importorskip("pandas")

    found = pandas.read_csv(nasty_csv, keep_default_na=False, lineterminator="\n")

    assert found["value"].tolist() == [text or "" for text in NASTY]
    assert found["offset"].tolist() == list(range(len(NASTY)))


def test_csv_that_polars_reads_has_the_values_and_tells_null_from_empty(nasty_csv: Path) -> None:
    polars = pytest.importorskip("polars")

    found = polars.read_csv(nasty_csv, infer_schema=False)

    assert found["value"].to_list() == NASTY


def test_csv_that_pythons_reader_reads_has_the_values(nasty_csv: Path) -> None:
    with nasty_csv.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    assert [row["value"] for row in rows] == [text or "" for text in NASTY]


def test_csv_that_spark_reads_has_the_values(spark: SparkSession, nasty_csv: Path) -> None:
    options = {"header": "true", "multiLine": "true", "escape": '"', "lineSep": "\n"}

    rows = spark.read.options(**options).csv(str(nasty_csv)).collect()

    assert [row.value or "" for row in rows] == [text or "" for text in NASTY]


def test_csv_of_one_column_has_a_row_for_each_null(spark: SparkSession, tmp_path: Path) -> None:
    """An empty line would not be a row for most readers."""
    with stratalog.open_log(tmp_path / "logs" / "orders-0", create=True) as log:
        log.append_many([NewRecord(b"v", key, (), T0) for key in (b"k", None, None, b"k")])

    export(spark, tmp_path / "logs", tmp_path / "out", format="csv", columns=["key"])

    (path,) = (tmp_path / "out").rglob("*.csv")
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [["aw=="], [""], [""], ["aw=="]]


def test_csv_is_quoted_otherwise_if_told_to(spark: SparkSession, tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "logs" / "orders-0", create=True) as log:
        log.append_many([NewRecord(b'quo"te', None, (), T0)])

    more = {"value": "utf8", "columns": ["value"], "writer_options": {"escape": "\\"}}
    export(spark, tmp_path / "logs", tmp_path / "out", format="csv", **more)  # type: ignore[arg-type]

    (path,) = (tmp_path / "out").rglob("*.csv")
    assert path.read_text() == '"quo\\"te",,\n'  # undecodedValue and its reason are empty


def test_what_a_damaged_log_lacks_is_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    logs = damaged_log(tmp_path / "logs")

    for form in ("parquet", "csv"):
        with pytest.warns(OmissionWarning, match="2 offsets at most") as caught:
            report = export(spark, logs, tmp_path / form, format=form, onCorruption="skip")

        assert report.rows == 98
        assert [(each.first_offset, each.end_offset) for each in report.omissions] == [(0, 1), (50, 51)]
        assert Path(caught[0].filename) == Path(__file__)


def test_a_run_through_spark_that_failed_is_done_anew(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    wrong = {"compression": "no such codec"}
    with pytest.raises(IllegalArgumentException, match="no such codec"):
        export(spark, logs, tmp_path / "out", format="json", writer_options=wrong)

    assert export(spark, logs, tmp_path / "out", format="json").rows == 20
    assert offsets(spark, tmp_path / "out", "json") == list(range(20))


def test_avro_values_become_columns(spark: SparkSession, tmp_path: Path) -> None:
    schema = (
        '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, '
        '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}'
    )
    stream = io.BytesIO()
    plain = {"type": "record", "name": "R", "fields": [{"name": n, "type": "long"} for n in ("id", "at")]}
    fastavro.schemaless_writer(stream, plain, {"id": 7, "at": T0})
    with stratalog.open_log(tmp_path / "logs" / "orders-0", create=True) as log:
        log.append_many([NewRecord(stream.getvalue(), None, (), T0), NewRecord(b"\x80", None, (), T0)])

    for form in ("parquet", "json"):
        target = tmp_path / form
        report = export(spark, tmp_path / "logs", target, format=form, value="avro", value_schema=schema)
        frame = spark.read.format(form).load(str(target)).orderBy("offset")
        first, second = frame.selectExpr(
            "value.id", "CAST(value.at AS STRING) AS at", "undecodedValue"
        ).collect()

        assert report.undecoded == 1
        assert first.id == 7
        assert first.at.replace("T", " ").startswith("2023-11-14 22:13:20")
        assert second.id is None
        assert second.undecodedValue is not None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"value": "utf-8"}, "use one of binary, utf8, json, avro, confluent, confluent-avro"),
        ({"decode": "consumer_offsets"}, "decode cannot be exported"),
        ({"writer_options": {"a": "b"}}, "writer options are for Spark's writers"),
        ({"codec": "brotli9"}, "not a supported Parquet codec"),
        ({"topics": "none"}, "subscribe names none"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, wrong: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        export(spark, CLEAN, tmp_path / "out", **wrong)  # type: ignore[arg-type]

    assert not (tmp_path / "out").exists()
