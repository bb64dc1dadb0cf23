"""What commands print: data on stdout, as text or as JSON; words, progress and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from stratalog.engine.progress import OnProgress, Progress

Command = TypeVar("Command", bound=Callable[..., object])
ShowBar = Callable[[str, str, int, int], None]

# What a table may take where nobody is watching: a pipe has no width of its own.
WIDTH_OF_A_PIPE = 160


class ExitCode(IntEnum):
    """What a command tells the shell."""

    FINE = 0
    FINDINGS = 1
    USAGE = 2
    FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table in words. `>` before a column's name sets it to the right, `!` keeps its lines unbroken."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(slots=True)
class Output:
    """Where a command hands its values; `as_json` is set by the `--json` option."""

    as_json: bool = False
    _consoles: dict[bool, Console] = field(default_factory=dict)

    def say(self, words: str) -> None:
        """A sentence for the person who waits."""
        self._console(stderr=True).print(words, markup=False, highlight=False, soft_wrap=True)

    def error(self, error: Exception) -> None:
        """Why the command stopped."""
        if self.as_json:
            click.echo(json.dumps({"error": type(error).__name__, "message": str(error)}), err=True)
        else:
            click.echo(f"stratalog: {error}", err=True)

    def show(self, document: Mapping[str, object], *tables: Table, verdict: str | None = None) -> None:
        """A result: the document if JSON was asked for, the tables otherwise, and a last sentence."""
        if self.as_json:
            click.echo(json.dumps(document, indent=2))
            return
        for table in tables:
            self._print_table(table)
        if verdict is not None:
            self._console(stderr=False).print(verdict, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def progress(self, words: str, *, unit: str = "bytes") -> Iterator[OnProgress]:
        """A bar with rate and time left on a terminal, and nothing where nobody watches."""
        with self.bars(unit=unit) as show:

            def on_progress(progress: Progress) -> None:
                show("", words, progress.bytes_done, progress.bytes_total)

            yield on_progress

    @contextmanager
    def bars(self, *, unit: str = "bytes") -> Iterator[ShowBar]:
        """A bar for each key; what is given takes the key, words, how much is done, and of how much."""
        from rich import progress as rich

        rate: list[rich.ProgressColumn] = (
            [rich.DownloadColumn(), rich.TransferSpeedColumn()]
            if unit == "bytes"
            else [rich.MofNCompleteColumn()]
        )
        columns = [
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.TaskProgressColumn(),
            *rate,
            rich.TimeRemainingColumn(),
        ]
        console = self._console(stderr=True)
        with rich.Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            tasks: dict[str, rich.TaskID] = {}

            def show(key: str, words: str, done: int, total: int) -> None:
                if key not in tasks:
                    tasks[key] = bar.add_task(words, total=None)
                bar.update(tasks[key], description=words, completed=done, total=total)

            yield show

    @property
    def is_watched(self) -> bool:
        """Whether words go to a terminal, where somebody sees bars move."""
        return self._console(stderr=True).is_terminal

    def _print_table(self, table: Table) -> None:
        from rich.table import Table as RichTable

        shown = RichTable(title=table.title, title_justify="left")
        for column in table.columns:
            shown.add_column(
                column.lstrip(">!"),
                justify="right" if column.startswith(">") else "left",
                no_wrap=column.startswith("!"),
                # A file's name with an ellipsis in it is no use to anybody.
                overflow="fold",
            )
        for row in table.rows:
            shown.add_row(*row)
        self._console(stderr=False).print(shown)

    def _console(self, *, stderr: bool) -> Console:
        if stderr not in self._consoles:
            from rich.console import Console

            stream = sys.stderr if stderr else sys.stdout
            width = None if stream.isatty() else WIDTH_OF_A_PIPE
            # What is printed is data: no [b] in it is a tag, and no :id: a picture.
            self._consoles[stderr] = Console(
                stderr=stderr, width=width, markup=False, highlight=False, emoji=False
            )
        return self._consoles[stderr]


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


def size_text(size: int) -> str:
    """1234567 as 1.2 MB: powers of ten, as disks are sold and Kafka's metrics are read."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def time_text(timestamp_ms: int) -> str:
    """A Kafka timestamp in UTC; `-` for -1, which is Kafka's word for none. Past the year 9999 its number."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"  # a producer that sends microseconds
    return moment.strftime("%Y-%m-%d %H:%M:%S")
