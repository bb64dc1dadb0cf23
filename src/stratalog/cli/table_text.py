"""Tables as text: columns that fit, bars, and the forms that rich does not draw."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from stratalog.operations.report import Table

# Before the names of columns; `Table` says what they mean.
MARKS = ">!="
_BAR_WIDTH = 12
_WITHOUT_BAR = dict.fromkeys(map(ord, "█░\N{NO-BREAK SPACE}"))
_ANY_WIDTH = 10_000


def plain_text(table: Table) -> str:
    """A table for other programs: title, columns and rows, with tabs between cells."""
    lines = [[column.lstrip(MARKS) for column in table.columns], *table.rows]
    cells = ["\t".join(" ".join(cell.split()) for cell in line) for line in lines]
    return "\n".join([f"# {table.title}", *cells])


def with_bars(table: Table) -> list[list[str]]:
    """The rows, with a bar before each share of a column that is marked with `=`."""
    is_bar = [column.startswith("=") for column in table.columns]
    return [
        [_bar(cell) if bar else cell for cell, bar in zip(row, is_bar, strict=True)] for row in table.rows
    ]


def _bar(share: str) -> str:
    number = share.removesuffix(" %")
    if number == share:
        return share
    filled = round(float(number) / 100 * _BAR_WIDTH)
    return f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {share:>7}".replace(" %", "\N{NO-BREAK SPACE}%")


def framed_text(table: Table, width: int) -> str | None:
    """The table in a frame, with the same characters that rich prints; None if only rich can draw it.

    rich is needed if a line must be broken, or if a character may be wider or narrower than others.
    """
    names = [column.lstrip(MARKS) for column in table.columns]
    widths = widths_of(table, _ANY_WIDTH)
    framed = _with_frame(widths)
    lines = [names, *table.rows]
    if framed > width or not 0 < len(table.title) <= framed or not table.rows:
        return None
    if not all(map(_is_simple, (table.title, *chain.from_iterable(lines)))):
        return None

    def rule(start: str, line: str, between: str, end: str) -> str:
        return f"{start}{between.join(line * (column + 2) for column in widths)}{end}"

    def line(side: str, cells: Sequence[str]) -> str:
        placed = (
            f" {cell:{'>' if column.startswith('>') else '<'}{width}} "
            for column, cell, width in zip(table.columns, cells, widths, strict=True)
        )
        return f"{side}{side.join(placed)}{side}"

    return "\n".join(
        [
            f"{table.title:<{framed}}",
            rule(*"┏━┳┓"),
            line("┃", names),
            rule(*"┡━╇┩"),
            *(line("│", row) for row in table.rows),
            rule(*"└─┴┘"),
        ]
    )


def _is_simple(text: str) -> bool:
    """Whether rich would print the text as it is, and each character takes one place."""
    plain = text if text.isascii() else text.translate(_WITHOUT_BAR)
    return plain.isascii() and plain.isprintable() and text == text.strip()


def fitting(table: Table, width: int) -> Table:
    """The table with as many columns as fit side by side; its title names those that are left out.

    If the table is too wide even without all its droppable columns, it is returned unchanged.
    """
    left = table
    dropped: list[str] = []
    for name in table.droppable:
        if _width(left) <= width:
            break
        kept = [number for number, column in enumerate(left.columns) if column.lstrip(MARKS) != name]
        if len(kept) < len(left.columns):
            dropped.append(name)
            left = replace(
                left,
                columns=[left.columns[number] for number in kept],
                rows=[[row[number] for number in kept] for row in left.rows],
            )
    if not dropped or _width(left) > width:
        return table
    return replace(left, title=f"{table.title}, without {', '.join(dropped)}")


def _width(table: Table) -> int:
    """The least width of the table: column names are broken between words, and cells are not."""
    return _with_frame(widths_of(table, 0))


def widths_of(table: Table, width: int) -> list[int]:
    """The width of each column; the names of columns are broken if the table is wider than `width`."""
    names = [column.lstrip(MARKS) for column in table.columns]
    cells = [max((len(row[number]) for row in table.rows), default=0) for number in range(len(names))]
    whole = [max(cell, len(name)) for cell, name in zip(cells, names, strict=True)]
    if _with_frame(whole) <= width:
        return whole
    return [max(cell, *map(len, name.split())) for cell, name in zip(cells, names, strict=True)]


def _with_frame(widths: Sequence[int]) -> int:
    return sum(widths) + 3 * len(widths) + 1


def narrow_text(table: Table, width: int) -> str:
    """A table whose words do not fit side by side: a line for each cell, and an empty line after each row.

    Text that is longer than `width` goes on in the next line, below its beginning.
    """
    names = [column.lstrip(MARKS) for column in table.columns]
    indent = max(map(len, names)) + 4

    def wrapped(text: str, start: str = "", indent: int = 0) -> str:
        below = "\n" + " " * indent
        lines = textwrap.wrap(
            " ".join(text.split()), max(width - indent, 1), break_long_words=False, break_on_hyphens=False
        )
        return f"{start:<{indent}}{below.join(lines)}".rstrip()

    rows = [
        "\n".join(wrapped(cell, f"  {name}", indent) for name, cell in zip(names, row, strict=True))
        for row in table.rows
    ]
    return "\n".join([wrapped(table.title), *(f"{row}\n" for row in rows)])
