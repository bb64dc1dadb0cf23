"""`stratalog export` without Spark: what its arguments may be. tests/spark/test_sql.py runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.cli.export import show_report
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
    report = ExportReport(rows=1234, files=2, size=5_000_000, undecoded=undecoded, partitions=1)

    assert show_report(Output(), report, "out") == status
    printed = capsys.readouterr()
    assert "1,234" in printed.out
    assert "5.0 MB" in printed.out
    assert ("undecodedValue" in printed.err) == bool(undecoded)
