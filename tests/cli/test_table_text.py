"""Tables as text: what is left out of a table that is too wide, and frames that are drawn without rich."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.cli import output
from stratalog.cli.output import Output
from stratalog.cli.table_text import fitting, framed_text
from stratalog.operations.report import Table
from tests.profile import examples

WIDE = Table(
    title="Topics",
    columns=["topic", ">size", "first time", "last time"],
    rows=[["orders", "1.0 kB", "2026-11-15 21:56:17", "2026-11-15 21:57:00"]],
    droppable=["first time", "not there", "last time"],
)


@pytest.mark.parametrize(
    ("width", "title", "columns"),
    [
        (80, "Topics", ["topic", ">size", "first time", "last time"]),
        (64, "Topics", ["topic", ">size", "first time", "last time"]),
        (62, "Topics, without first time", ["topic", ">size", "last time"]),
        (40, "Topics, without first time, last time", ["topic", ">size"]),
        # Nothing is gained by a table of fewer columns if that does not fit either.
        (10, "Topics", ["topic", ">size", "first time", "last time"]),
    ],
)
def test_columns_that_do_not_fit_are_left_out_in_their_order(
    width: int, title: str, columns: list[str]
) -> None:
    fitted = fitting(WIDE, width)

    assert (fitted.title, fitted.columns) == (title, columns)
    assert [len(row) for row in fitted.rows] == [len(columns)]


def printed_by_rich(table: Table) -> str:
    with redirect_stdout(io.StringIO()) as printed, patch.object(output, "framed_text", lambda *_: None):
        Output().show({}, table)
    return printed.getvalue()


def printed(table: Table) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        Output().show({}, table)
    return printed.getvalue()


CELLS = (
    st.sampled_from(
        ["orders-0", "1.0 kB", "[red]a[/red]", ":id:", "12.5 %", "100.0 %", "-", "a  b", "x" * 90]
    )
    | st.text(alphabet="az09.-_/[]:\\█░", max_size=12)
    | st.text(alphabet="a \té\n\x1b\u4e00\N{NO-BREAK SPACE}", max_size=3)
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    count = draw(st.integers(1, 4))
    marks = st.sampled_from(["", ">", "!", "=", ">!"])
    columns = [draw(marks) + draw(CELLS).lstrip(">!=") for _ in range(count)]
    rows = draw(st.lists(st.lists(CELLS, min_size=count, max_size=count), min_size=1, max_size=4))
    return Table(title=draw(CELLS | st.just("Topics")), columns=columns, rows=rows)


@given(tables())
@settings(max_examples=examples(deep=2000))
def test_a_frame_is_the_one_that_rich_draws(table: Table) -> None:
    assert printed(table) == printed_by_rich(table)


def test_a_simple_table_needs_no_rich() -> None:
    table = Table(title="By topic", columns=["topic", ">size"], rows=[["a", "1 B"], ["orders", "12 B"]])

    assert framed_text(table, 160) == (
        "By topic         \n"
        "┏━━━━━━━━┳━━━━━━┓\n"
        "┃ topic  ┃ size ┃\n"
        "┡━━━━━━━━╇━━━━━━┩\n"
        "│ a      │  1 B │\n"
        "│ orders │ 12 B │\n"
        "└────────┴──────┘"
    )


@pytest.mark.parametrize(
    ("title", "cell", "width"),
    [
        ("a title that is wider than the table", "a", 160),
        ("", "a", 160),
        ("Topics", "two\nlines", 160),
        ("Topics", "\t", 160),
        ("Topics", "\u4e00 takes two places", 160),
        ("Topics", "too wide", 10),
    ],
)
def test_a_table_that_rich_must_draw(title: str, cell: str, width: int) -> None:
    assert framed_text(Table(title=title, columns=["topic"], rows=[[cell]]), width) is None
