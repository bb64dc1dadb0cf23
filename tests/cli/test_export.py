"""`stratalog export` without Spark: what its arguments may be. tests/spark/test_sql.py runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.export import ExportShown
from stratalog.cli.output import Output
from stratalog.jobs.export import ExportReport
from stratalog.jobs.reading.omissions import Omission, OmissionKind

CLEAN = str(Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs")
OMISSION = Omission(
    topic="orders",
    partition=3,
    kind=OmissionKind.DAMAGE,
    first_offset=100,
    end_offset=387,
    why="its checksum is wrong.",
    size=9000,
    path="a.log",
    position=70,
)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["."], "Missing option '--to'"),
        (["--to", "out"], "name the log directories"),
        (
            ["--to", "out", ".", "--topics", "a,b"],
            "--topics is now --topic, which can be given",
        ),
        (["--to", "out", ".", "orders"], "A topic is now given by --topic orders."),
        ([".", "--to", "out", "--value", "protobuf"], "'protobuf' is not one of"),
        ([".", "--to", "out", "--value-schema", "7=a.avsc"], "the encoding is binary: leave the schema out"),
        (
            [".", "--to", "out", "--value", "avro", "--value-schema", "no-such-file"],
            "no-such-file is not a file: give the file of a schema",
        ),
        (
            [".", "--to", "out", "--value", "confluent", "--value-schema", "order.avsc"],
            "'order.avsc' does not say which id each schema has",
        ),
        (
            [CLEAN, "--to", "out", "--value", "confluent"],
            "the topic _schemas is not in",
        ),
        (
            [".", "--to", "out", "--value", "utf8", "--option", "valueEncoding=json"],
            "valueEncoding is given twice, by --option and by an option of its own",
        ),
        ([".", "--to", "out", "--writer-option", "x"], "'x' is not NAME=VALUE"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main.run(["export", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("stratalog.spark.session.session", session)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--topic", "none"], "subscribe names none, which is not in"),
        (["--columns", "offset,colour"], "there is no column colour"),
        (["--value", "avro"], "avro needs a schema"),
        (["--value", "avro", "--value-schema", "SCHEMA"], "the Avro schema is not JSON"),
        (["--writer-option", "a=b"], "writer options are for Spark's writers"),
        (["--option", "isolation=most"], "isolation is 'most'"),
        (["--since", "tea time"], "'tea time' is not a time"),
        (["--since", "2026-02-01", "--until", "1767225600000"], "--since is later than --until, so there is"),
    ],
)
def test_what_cannot_be_exported_is_told_before_spark_starts(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "schema").write_text("not JSON")
    given = [str(tmp_path / "schema") if each == "SCHEMA" else each for each in arguments]

    assert main.run(["export", CLEAN, "--to", str(tmp_path / "out"), *given]) == 2

    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("undecoded", "status"), [(0, 0), (3, 1)])
def test_what_could_not_be_decoded_is_a_finding(
    undecoded: int, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Output().report(shown(undecoded=undecoded)) == status
    printed = capsys.readouterr()
    assert "1,234" in printed.out
    assert "5.0 MB" in printed.out
    assert ("undecodedValue" in printed.err) == bool(undecoded)
    assert printed.out.splitlines()[-1] == "1,234 rows were exported to out."


def test_records_that_were_left_out_are_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    report = ExportReport(rows=1234, omissions=(OMISSION,))

    assert Output().report(ExportShown(exported=report, folder="out")) == 1
    said = capsys.readouterr().err
    assert "records were left out: 287 offsets at most and 9,000 bytes, at 1 place of 1 partition." in said
    assert "orders-3: offsets 100 to 386, 9000 bytes from byte 70 of a.log on: its checksum is wrong." in said

    Output(as_json=True).report(ExportShown(exported=report, folder="out"))
    document = json.loads(capsys.readouterr().out)
    assert document["omissions"] == [OMISSION.to_json()]
    assert document["totals"]["offsets_left_out"] == 287
    assert document["totals"]["bytes_left_out"] == 9000


def test_a_folder_that_lacks_what_was_left_out_is_not_said_to_have_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().report(ExportShown(exported=ExportReport(omissions=(OMISSION,)), folder="out"))

    assert "it lacks the records that were left out" in capsys.readouterr().out.splitlines()[-1]


def test_a_summary_has_totals_and_the_verdict_only(capsys: pytest.CaptureFixture[str]) -> None:
    totals = {"rows": 1234, "files": 2, "bytes": 5_000_000, "partitions": 1, "undecoded": 0}
    totals |= {"offsets_left_out": 0, "bytes_left_out": 0}
    verdict = "1,234 rows were exported to out."

    Output(as_json=True, is_summary=True).report(shown())
    assert json.loads(capsys.readouterr().out) == {"totals": totals, "verdict": verdict}

    Output(is_plain=True, is_summary=True).report(shown())
    lines = ["# Summary", "what\ttotal", "rows\t1234", "files\t2", "bytes\t5.0 MB", "partitions\t1"]
    lines += ["undecoded\t0", "offsets left out\t0", "bytes left out\t0 B"]
    assert capsys.readouterr().out.splitlines() == [*lines, verdict]


def test_an_export_that_has_nothing_to_do_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Output().report(ExportShown(exported=ExportReport(), folder="out"))

    assert capsys.readouterr().out.splitlines()[-1] == "out already has all records."


def shown(undecoded: int = 0) -> ExportShown:
    report = ExportReport(rows=1234, files=2, size=5_000_000, undecoded=undecoded, partitions=1)
    return ExportShown(exported=report, folder="out")
