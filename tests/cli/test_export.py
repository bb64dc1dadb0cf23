"""`stratalog export` without Spark: what its arguments may be. tests/spark/test_sql.py runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.export import ExportShown
from stratalog.cli.output import Output
from stratalog.jobs.export import ExportReport


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
        ([".", "--to", "out", "--value-schema", "no-such-file"], "does not exist"),
        ([".", "--to", "out", "--writer-option", "x"], "'x' is not NAME=VALUE"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main.run(["export", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


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


def test_a_summary_has_totals_and_the_verdict_only(capsys: pytest.CaptureFixture[str]) -> None:
    totals = {"rows": 1234, "files": 2, "bytes": 5_000_000, "partitions": 1, "undecoded": 0}
    verdict = "1,234 rows were exported to out."

    Output(as_json=True, is_summary=True).report(shown())
    assert json.loads(capsys.readouterr().out) == {"totals": totals, "verdict": verdict}

    Output(is_plain=True, is_summary=True).report(shown())
    lines = ["# Summary", "what\ttotal", "rows\t1234", "files\t2", "bytes\t5.0 MB", "partitions\t1"]
    assert capsys.readouterr().out.splitlines() == [*lines, "undecoded\t0", verdict]


def test_an_export_that_has_nothing_to_do_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    Output().report(ExportShown(exported=ExportReport(), folder="out"))

    assert capsys.readouterr().out.splitlines()[-1] == "out already has all records."


def shown(undecoded: int = 0) -> ExportShown:
    report = ExportReport(rows=1234, files=2, size=5_000_000, undecoded=undecoded, partitions=1)
    return ExportShown(exported=report, folder="out")
