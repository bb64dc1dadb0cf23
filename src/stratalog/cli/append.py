"""`stratalog append`: appends lines as records to a lone log."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from stratalog.cli.options import FILE, check_not_empty
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.errors import UsageError

if TYPE_CHECKING:
    from stratalog.operations.append import LineInput, ParseLine

# As in records/compression.py, which is slow to import.
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command(short_help="Append lines to a log outside a broker.")
@click.argument("directory", metavar="DIR", callback=check_not_empty)
@click.argument("file", required=False, type=FILE)
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Each line is a key, this text and a value.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="With -K, an empty value is null.")
@click.option("-J", "--json-lines", is_flag=True, help="A line is a JSON object, as `cat -J` prints it.")
@click.option("--create", is_flag=True, help="Create the log if it does not exist.")
@click.option(
    "-z",
    "--codec",
    type=click.Choice(_CODECS),
    default="none",
    show_default=True,
    help="Compress the batches with this.",
)
@output_options
@click.pass_obj
def append(
    output: Output,
    *,
    directory: str,
    file: Path | None,
    key_delimiter: str | None,
    empty_is_null: bool,
    json_lines: bool,
    create: bool,
    codec: str,
) -> ExitCode:
    """Append the lines of FILE, or of stdin, to a log outside a broker's directories.

    DIR is the directory of the log, such as data/orders-0. The first wrong line ends the command: the lines
    before it are appended, and the report names it.

    Ctrl-C appends the lines that were read whole, and says how many.

    Exit status: 0 if all lines were appended; 1 if a line is wrong; 2 for wrong usage; 3 if the log is in use
    or cannot be written.
    """
    from stratalog.operations.append import Appending
    from stratalog.signals import graceful_stop

    if file is None and sys.stdin is None:
        raise UsageError("standard input is closed: name a FILE, or redirect standard input.")
    parse = _parser(key_delimiter, empty_is_null=empty_is_null, json_lines=json_lines)
    appending = Appending(directory=directory, parse=parse, create=create, codec=codec)  # type: ignore[arg-type]
    with ExitStack() as held:
        # A second Ctrl-C ends the command at once.
        stop = held.enter_context(graceful_stop([signal.SIGINT]))
        lines = sys.stdin.buffer if file is None else held.enter_context(file.open("rb"))
        report = appending.run(cast("LineInput", lines), stop)
        status = output.report(report)
    if report.is_stopped:
        raise click.Abort
    return status


def _parser(key_delimiter: str | None, *, empty_is_null: bool, json_lines: bool) -> ParseLine:
    from stratalog.operations.append import json_line, keyed_line, value_of_line
    from stratalog.questions.formats import unescaped

    if json_lines and (key_delimiter is not None or empty_is_null):
        raise UsageError("-J already has keys and nulls: leave out -K and -Z.")
    if empty_is_null and key_delimiter is None:
        raise UsageError("-Z is for lines with a key: give -K too.")
    if json_lines:
        return json_line
    if key_delimiter is None:
        return value_of_line
    delimiter = unescaped(key_delimiter)
    if not delimiter:
        raise UsageError("-K is empty: give the text between a key and its value.")
    return keyed_line(delimiter, empty_is_null=empty_is_null)
