"""Tables as text: what is left out of a table that is too wide."""

from __future__ import annotations

import pytest

from stratalog.cli.table_text import fitting
from stratalog.operations.report import Table

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
