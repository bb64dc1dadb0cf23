"""Data on stdout, as tables or JSON; words on stderr."""

from __future__ import annotations

import json

import pytest

from stratalog.cli.output import Output, Table, size_text, time_text
from stratalog.engine.engine import Progress

TABLE = Table(title="Topics", columns=["topic", ">records"], rows=[["[bold]a", "1"], ["b:id:c", "23"]])


def test_a_result_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Output().show({"topics": 2}, TABLE)

    printed = capsys.readouterr()
    assert printed.err == ""
    # Names come from directories, and one that looks like markup, or like a picture's, is still a name.
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
        on_progress(Progress(tasks_done=1, tasks_count=2, weight_done=1, weight_total=2))

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (402_900_000, "402.9 MB"),
        (2_700_000_000, "2.7 GB"),
        (5 * 10**12, "5.0 TB"),
    ],
)
def test_sizes_are_written_in_powers_of_ten(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_are_written_in_utc() -> None:
    assert time_text(0) == "1970-01-01 00:00:00"
    assert time_text(1_767_225_600_005) == "2026-01-01 00:00:00"
    assert time_text(-1) == "-"
