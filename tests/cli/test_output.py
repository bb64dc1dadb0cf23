"""Data on stdout, as tables or JSON; words on stderr."""

from __future__ import annotations

import io
import json
import sys

import pytest

from stratalog.cli import output
from stratalog.cli.output import Output
from stratalog.engine.progress import Progress
from stratalog.operations.report import Report, Status, Table

TABLE = Table(title="Topics", columns=["topic", ">records"], rows=[["[bold]a", "1"], ["b:id:c", "23"]])


def test_a_result_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Output().show({"topics": 2}, TABLE)

    printed = capsys.readouterr()
    assert printed.err == ""
    # Names come from directories: a name that looks like markup or an emoji is still a name.
    assert "[bold]a" in printed.out
    assert "b:id:c" in printed.out
    assert "{" not in printed.out


def test_a_result_is_a_document_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).show({"topics": 2}, TABLE)

    assert json.loads(capsys.readouterr().out) == {"topics": 2}


def test_words_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Output().say("Walking [/red] 5 :id: segments ...")

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Walking [/red] 5 :id: segments ...\n")


def test_no_bar_is_drawn_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with Output().progress("Walking") as on_progress:
        on_progress(Progress(tasks_done=1, tasks_count=2, bytes_done=1, bytes_total=2))

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


class Found(Report):
    """A report with one table, one empty one, and a sentence."""

    status = Status.FINDINGS
    verdict = "The broker can be started."

    def tables(self) -> list[Table]:
        return [TABLE, Table(title="Empty", columns=["x"], rows=[])]

    def words(self) -> list[str]:
        return ["Read this."]

    def totals(self) -> dict[str, int]:
        return {"topics": 2, "bytes_read": 24_000}

    def to_document(self) -> dict[str, object]:
        return {"topics": ["a", "b"]}


def test_a_report_ends_with_its_verdict_and_gives_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert Output().report(Found()) == 1

    printed = capsys.readouterr()
    assert printed.err == "Read this.\n"
    assert "Topics" in printed.out
    assert "Empty" not in printed.out
    assert printed.out.splitlines()[-1] == "The broker can be started."


def test_a_plain_report_has_tabs_and_no_frames(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_plain=True).report(Found())

    assert capsys.readouterr().out == (
        "# Topics\ntopic\trecords\n[bold]a\t1\nb:id:c\t23\nThe broker can be started.\n"
    )


def test_a_summary_has_totals_and_the_verdict_only(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_plain=True, is_summary=True).report(Found())

    assert capsys.readouterr().out == (
        "# Summary\nwhat\ttotal\ntopics\t2\nbytes read\t24.0 kB\nThe broker can be started.\n"
    )


@pytest.mark.parametrize("is_summary", [False, True])
def test_json_has_totals_and_the_verdict(is_summary: bool, capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True, is_summary=is_summary).report(Found())

    document = {} if is_summary else {"topics": ["a", "b"]}
    assert json.loads(capsys.readouterr().out) == {
        **document,
        "totals": {"topics": 2, "bytes_read": 24_000},
        "verdict": "The broker can be started.",
    }


@pytest.mark.parametrize("columns", ["0", "-5", "wide", "", "²"])
def test_a_width_of_zero_columns_printed_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    Output().show({}, TABLE, verdict="Fine.")
    unset = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", columns)

    Output().show({}, TABLE, verdict="Fine.")

    assert capsys.readouterr().out == unset
    assert "Fine." in unset


def test_a_table_that_does_not_fit_was_broken_in_the_middle_of_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    columns = ["topic", ">partitions", ">segments", "codec"]
    wide = Table(title="Topics", columns=columns, rows=[["orders", "12", "48", "zstd"], ["a", "1", "1", ""]])

    Output().show({}, wide, TABLE)

    assert capsys.readouterr().out.startswith(
        "Topics\n"
        "  topic       orders\n"
        "  partitions  12\n"
        "  segments    48\n"
        "  codec       zstd\n"
        "\n"
        "  topic       a\n"
        "  partitions  1\n"
        "  segments    1\n"
        "  codec\n"
        "\n"
        "Topics"
    )


def test_a_share_has_a_bar_but_not_for_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    shares = Table(title="By topic", columns=["topic", "=share"], rows=[["a", "75.0 %"], ["b", "-"]])

    Output().show({}, shares)
    assert "█████████░░░" in capsys.readouterr().out
    Output(is_plain=True).show({}, shares)
    assert capsys.readouterr().out == "# By topic\ntopic\tshare\na\t75.0 %\nb\t-\n"


WIDE = Table(
    title="Topics",
    columns=["topic", ">size", "first time", "last time"],
    rows=[["orders", "1.0 kB", "2026-11-15 21:56:17", "2026-11-15 21:57:00"]],
    droppable=["first time", "not there", "last time"],
)


def test_a_pipe_has_all_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    Output().show({}, WIDE)

    printed = capsys.readouterr().out
    assert "first time" in printed
    assert "without" not in printed


@pytest.mark.parametrize(
    "words", ["Fine.", "tab\tand\x07bell", "", "two\n  lines\n", "[red] :id: é\u4e00", " a "]
)
def test_words_are_those_that_rich_prints(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Output().say(words)
    said = capsys.readouterr().err
    monkeypatch.setattr(output, "_is_bare", lambda _stream: False)

    Output().say(words)

    assert said == capsys.readouterr().err


def test_a_variable_that_asks_for_colours_is_left_to_rich(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    Output().show({}, TABLE)

    assert "\x1b[" in capsys.readouterr().out


def test_an_encoding_without_lines_has_a_frame_of_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="latin-1", write_through=True))

    Output().show({}, TABLE)

    assert b"+---" in printed.getvalue()
