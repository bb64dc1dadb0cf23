"""What commands print: data on stdout, as text or as JSON; words, progress and errors on stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from stratalog.cli.progress import ProgressBar, bars_of, progress_line
from stratalog.cli.table_text import (
    MARKS,
    fitting,
    framed_text,
    narrow_text,
    plain_text,
    widths_of,
    with_bars,
)
from stratalog.operations.report import Table
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    from rich.console import Console

    from stratalog.engine.progress import OnProgress, Progress
    from stratalog.operations.report import Report

Command = TypeVar("Command", bound=Callable[..., object])

# The width of a table that is not printed to a terminal, unless COLUMNS is set: a pipe has no width.
WIDTH_OF_A_PIPE = 160
_ANY_WIDTH = 10_000
_BETWEEN_LINES_S = 30.0  # between two lines of progress, without a terminal


class ExitCode(IntEnum):
    """The exit status of a command."""

    FINE = 0
    FINDINGS = 1
    USAGE = 2
    FAILED = 3


@dataclass(slots=True)
class Output:
    """Takes the values of a command and prints them as `--json`, `--plain` and `--summary` say."""

    as_json: bool = False
    is_plain: bool = False
    is_summary: bool = False
    reported: Report | None = None  # the last report, for a command that runs others
    _consoles: dict[bool, Console] = field(default_factory=dict)

    def say(self, words: str) -> None:
        """Print a sentence for the user."""
        self._print(words, stderr=True)

    def error(self, error: Exception) -> None:
        """Print why the command stopped."""
        if self.as_json:
            click.echo(json.dumps({"error": type(error).__name__, "message": str(error)}), err=True)
        else:
            click.echo(f"stratalog: {error}", err=True)

    def show(self, document: Mapping[str, object], *tables: Table, verdict: str | None = None) -> None:
        """Print a result: the document if JSON was requested, else the tables, and a last sentence."""
        if self.as_json:
            click.echo(json.dumps(document, indent=2))
            return
        for table in tables:
            self._print_table(table)
        if verdict is not None:
            self._print(verdict)

    def report(self, report: Report) -> ExitCode:
        """Print the report of an operation, its verdict last; returns the command's exit status."""
        self.reported = report
        if self.as_json:
            document = {} if self.is_summary else report.to_document()
            click.echo(
                json.dumps({**document, "totals": report.totals(), "verdict": report.verdict}, indent=2)
            )
        tables = [_totals(report)] if self.is_summary else report.tables()
        for table in tables if not self.as_json else ():
            if table.rows:
                self._print_table(table)
        for words in report.words():
            self.say(words)
        if not self.as_json:
            self._print(report.verdict)
        return ExitCode(int(report.status))

    @contextmanager
    def progress(self, words: str = "") -> Iterator[OnProgress]:
        """The `on_progress` for an operation: shows bars on a terminal, and elsewhere a line now and then.

        `words` name the work if the operation itself does not.
        """
        said_s = time.monotonic()
        with self._bars() as show:

            def on_progress(progress: Progress) -> None:
                nonlocal said_s
                bars = [*bars_of(progress, words)]
                for bar in bars:
                    show(bar)
                now_s = time.monotonic()
                if bars and not self.is_watched and now_s - said_s >= _BETWEEN_LINES_S:
                    said_s = now_s
                    self.say(progress_line(progress, words))

            yield on_progress

    @contextmanager
    def _bars(self) -> Iterator[Callable[[ProgressBar], None]]:
        if not self.is_watched:
            yield lambda _bar: None
            return
        from rich import progress as rich

        columns = [
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.TaskProgressColumn(),
            rich.DownloadColumn(),
            rich.TransferSpeedColumn(),
            rich.TimeRemainingColumn(),
        ]
        with rich.Progress(*columns, console=self._console(stderr=True)) as shown:
            tasks: dict[str, rich.TaskID] = {}

            def show(bar: ProgressBar) -> None:
                if bar.key not in tasks:
                    tasks[bar.key] = shown.add_task(bar.words, total=None)
                shown.update(tasks[bar.key], description=bar.words, completed=bar.done, total=bar.total)

            yield show

    @property
    def is_watched(self) -> bool:
        """Whether bars are shown: stderr is a terminal, and --plain was not given."""
        return not self.is_plain and not _is_bare(sys.stderr) and self._console(stderr=True).is_terminal

    def _print(self, words: str, *, stderr: bool = False) -> None:
        # Text with control characters or tabs is left to rich, which removes or replaces them.
        if _is_bare(sys.stderr if stderr else sys.stdout) and all(map(str.isprintable, words.split("\n"))):
            click.echo(words, err=stderr)
        else:
            self._console(stderr=stderr).print(words, markup=False, highlight=False, soft_wrap=True)

    def _print_table(self, table: Table) -> None:
        if self.is_plain:
            click.echo(plain_text(table))
            return
        table = replace(table, rows=with_bars(table))
        framed = framed_text(table, _width(sys.stdout) or 0) if _is_bare(sys.stdout) else None
        if framed is None:
            self._print_with_rich(table)
        else:
            click.echo(framed)

    def _print_with_rich(self, table: Table) -> None:
        from rich.measure import Measurement
        from rich.table import Table as RichTable

        console = self._console(stderr=False)
        is_fitted = bool(table.droppable) and sys.stdout.isatty()
        if is_fitted:
            table = fitting(table, console.width)
        shown = RichTable(title=table.title, title_justify="left")
        widths = widths_of(table, console.width) if is_fitted else [None] * len(table.columns)
        for column, width in zip(table.columns, widths, strict=True):
            shown.add_column(
                column.lstrip(MARKS),
                justify="right" if column.startswith(">") else "left",
                no_wrap=column.startswith("!"),
                width=width,
                # A file name with an ellipsis in it is useless.
                overflow="fold",
            )
        for row in table.rows:
            shown.add_row(*row)
        needed = Measurement.get(console, console.options.update_width(_ANY_WIDTH), shown).minimum
        if needed > console.width:
            self._print(narrow_text(table, console.width))
        else:
            console.print(shown)

    def _console(self, *, stderr: bool) -> Console:
        if stderr not in self._consoles:
            from rich.console import Console

            # Cells are data: rich must not read [b] as a tag, or :id: as an emoji. With COLUMNS=0 it would
            # print nothing.
            self._consoles[stderr] = Console(
                stderr=stderr,
                width=_width(sys.stderr if stderr else sys.stdout),
                markup=False,
                highlight=False,
                emoji=False,
                _environ={name: value for name, value in os.environ.items() if name != "COLUMNS"},
            )
        return self._consoles[stderr]


def _is_bare(stream: TextIO) -> bool:
    """Whether text goes to the stream in UTF-8 and without colours, as to a file; if not, rich writes it.

    Importing rich and drawing with it takes longer than the work of most commands.
    """
    is_utf = (stream.encoding or "utf-8").lower().startswith("utf")
    return is_utf and not stream.isatty() and not {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys()


def _width(stream: TextIO) -> int | None:
    """The width of the text on a stream; None for the width of the terminal."""
    return columns_set() or (None if stream.isatty() else WIDTH_OF_A_PIPE)


def columns_set() -> int | None:
    """The width that COLUMNS sets; None if it is not set, or is not a number above zero."""
    text = os.environ.get("COLUMNS", "")
    return int(text) or None if text.isdecimal() else None


def json_option(command: Command) -> Command:
    """Adds `--json` to a command whose result has a JSON form."""

    def remember(context: click.Context, _option: click.Parameter, value: bool) -> None:
        context.ensure_object(Output).as_json = value

    option = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Print the result as JSON on stdout.",
    )
    return option(command)


def output_options(command: Command) -> Command:
    """Adds `--json`, `--plain` and `--summary` to a command whose result is a report."""

    def remember(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
        def callback(context: click.Context, _option: click.Parameter, value: bool) -> None:
            setattr(context.ensure_object(Output), name, value)

        return callback

    for flag, name, words in (
        ("--summary", "is_summary", "Print only totals and the verdict."),
        ("--plain", "is_plain", "Print columns with tabs between them, and no bars."),
    ):
        command = click.option(flag, is_flag=True, expose_value=False, callback=remember(name), help=words)(
            command
        )
    return json_option(command)


def _totals(report: Report) -> Table:
    rows = [[name.replace("_", " "), _total(name, value)] for name, value in report.totals().items()]
    return Table(title="Summary", columns=["what", ">total"], rows=rows)


def _total(name: str, value: int) -> str:
    return size_text(value) if name.startswith("bytes") else str(value)
