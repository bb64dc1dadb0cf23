"""`stratalog cat`: the records of topics, as kcat prints them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import (
    check_span,
    config_option,
    places_argument,
    since_option,
    split_places,
    topic_option,
    until_option,
)
from stratalog.cli.output import ExitCode, Output
from stratalog.cli.spark_options import schema_options
from stratalog.errors import UsageError
from stratalog.jobs.decoding.asked import DECODED, encoding_named

if TYPE_CHECKING:
    from stratalog.jobs.reading.omissions import Omission
    from stratalog.questions.choosing import Start
    from stratalog.questions.formats import Format
    from stratalog.questions.printing import Printout


def parse_encodings(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """Parse [key=|value=]ENCODING into options of the source."""
    found: dict[str, str] = {}
    for text in texts:
        which, separator, name = text.rpartition("=")
        if separator and which not in DECODED:
            raise click.BadParameter(f"{text!r} is not key=ENCODING, value=ENCODING or ENCODING.")
        try:
            encoding = encoding_named(name).value
        except UsageError as error:
            raise click.BadParameter(str(error)) from None
        found |= {f"{each}Encoding": encoding for each in ([which] if which else DECODED)}
    return found


@click.command(short_help="Print the records of topics, as kcat does.")
@places_argument
@config_option
@topic_option
@click.option(
    "-o",
    "--offset",
    "starts",
    multiple=True,
    metavar="OFFSET",
    help="Start at this offset of each partition; -10 is ten before its end. Also beginning, end, s@MS "
    "(start at this time) and e@MS (stop before this time).",
)
@since_option
@until_option
@click.option("-c", "--count", type=click.IntRange(min=0), metavar="N", help="Stop after N records.")
@click.option(
    "-e",
    "--exit",
    "exits",
    is_flag=True,
    help="Exit at the end. This is the default; the option exists for users of kcat.",
)
@click.option("--follow", is_flag=True, help="Go on with records that are appended, until Ctrl-C.")
@click.option(
    "-f", "--format", "format_text", metavar="FORMAT", help="What to print, such as '%o %k: %s\\n'."
)
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    metavar="TEXT",
    help="Print this text after each value; default \\n.",
)
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Print the key and this text before each value.")
@click.option("-Z", "--null", "marks_null", is_flag=True, help="Print NULL for a key or value that is null.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option(
    "--base64",
    "in_base64",
    is_flag=True,
    help="With -J: keys, payloads and values of headers in base64, which keeps every byte; `append -J` reads "
    "it.",
)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only records with this key; repeatable.")
@click.option("--grep", metavar="REGEX", help="Only records in whose printed key or value REGEX matches.")
@click.option("--committed", is_flag=True, help="Leave out records of aborted and open transactions.")
@click.option("--skip-damage", is_flag=True, help="Leave out damaged batches, and say so at the end.")
@click.option(
    "-s",
    "--encoding",
    "encodings",
    multiple=True,
    metavar="[key=|value=]ENCODING",
    callback=parse_encodings,
    help="Decode keys, values or both: utf8, json, avro or confluent.",
)
@schema_options
@click.pass_obj
def cat(
    output: Output,
    *,
    places: tuple[str, ...],
    config: Path | None,
    names: tuple[str, ...],
    starts: tuple[str, ...],
    since: int | None,
    until: int | None,
    count: int | None,
    exits: bool,
    follow: bool,
    format_text: str | None,
    delimiter: str,
    key_delimiter: str | None,
    marks_null: bool,
    as_json: bool,
    in_base64: bool,
    keys: tuple[str, ...],
    grep: str | None,
    committed: bool,
    skip_damage: bool,
    encodings: dict[str, str],
    decoding: dict[str, str],
) -> ExitCode:
    """Print the records of topics, with the options of kcat.

    Name log directories of one broker, as DIR or with --config. NAME is a topic (orders) or a partition
    (orders-3). Without a NAME it prints all topics except Kafka's internal ones. If you name an internal
    topic, its records are printed as JSON. Nothing is locked or changed; a broker may run.

    Exit status: 0 if everything was printed; 1 if something was left out or not decoded; 2 for wrong usage; 3
    if the command failed, for example at a damaged batch.
    """
    output.as_json = as_json  # for errors too
    from stratalog.questions.choosing import COMMAND_WORDS, chosen, starting_at
    from stratalog.questions.lines import Style
    from stratalog.questions.printing import Printout, Wish
    from stratalog.scanning.words import python_words

    _check_times(starts, since=since, until=until, exits=exits, follow=follow)
    directories, typed = split_places(places, config)
    broker = BrokerFiles.of(config, directories)
    wish = Wish(keys=tuple(key.encode("utf-8", "surrogateescape") for key in keys), pattern=grep, limit=count)
    if in_base64 and (encodings or not as_json):
        raise UsageError("--base64 is for -J, and decodes nothing: give -J, and leave out -s.")
    style = Style(
        format=None if as_json else _format(format_text, delimiter, key_delimiter),
        marks_null=marks_null,
        in_base64=in_base64,
    )
    given = {"failOnDataLoss": "false"} | encodings | decoding
    if committed:
        given["isolation"] = "read_committed"
    if skip_damage:
        given["onCorruption"] = "skip"
    with python_words(COMMAND_WORDS):
        options = chosen(broker.directories, (*typed, *names), given)
        options, notes = starting_at(options, _starts(starts, since=since, until=until))
    for note in notes:
        output.say(note)
    return _write(output, Printout(options=options, style=style, wish=wish, follows=follow))


def _check_times(
    starts: tuple[str, ...], *, since: int | None, until: int | None, exits: bool, follow: bool
) -> None:
    if follow and (exits or until is not None or any(text.startswith("e@") for text in starts)):
        raise UsageError(
            "--follow never ends, so it cannot be combined with -e, --until or -o e@: leave those out, or "
            "leave out --follow."
        )
    check_span(since, until)
    if since is not None and any(not text.startswith("e@") for text in starts):
        raise UsageError("--since and -o both say where to start: give one of them.")


def _starts(starts: tuple[str, ...], *, since: int | None, until: int | None) -> list[Start]:
    from stratalog.questions.choosing import Start, parse_start

    found = [parse_start(text) for text in starts]
    found += [] if since is None else [Start(since_ms=since)]
    return found + ([] if until is None else [Start(until_ms=until)])


def _format(text: str | None, delimiter: str, key_delimiter: str | None) -> Format:
    from stratalog.questions.formats import default_format, parse_format

    if text is not None:
        return parse_format(text)
    return default_format(delimiter=delimiter, key_delimiter=key_delimiter)


def _write(output: Output, printout: Printout) -> ExitCode:
    stdout = sys.stdout.buffer
    try:
        with closing(printout.pieces()) as pieces:
            for piece in pieces:
                while piece:
                    piece = piece[stdout.write(piece) :]  # an unbuffered stdout may accept only a part
                stdout.flush()
    finally:  # after Ctrl-C too, which is how --follow ends
        if printout.escaped_count:
            output.say(_escaped_words(printout.escaped_count))
    return _tell(output, printout.omissions)


def _escaped_words(count: int) -> str:
    from stratalog.operations.words import counted

    has = "has" if count == 1 else "have"
    return (
        f"{counted(count, 'record')} {has} bytes that are not UTF-8: JSON shows them as \\xNN, and they "
        "cannot be read back. -J --base64 keeps every byte."
    )


def _tell(output: Output, omissions: Sequence[Omission]) -> ExitCode:
    """Say what was left out, and what could not be decoded: both are findings."""
    if not omissions:
        return ExitCode.FINE
    from stratalog.jobs.reading.omissions import OmissionKind, joined_up, summary

    for place in joined_up(each for each in omissions if each.kind is OmissionKind.UNDECODED):
        output.say(f"printed as it is, because it could not be decoded: {place}")
    left_out = [each for each in omissions if each.kind is not OmissionKind.UNDECODED]
    if left_out:
        output.say(summary(left_out))
    return ExitCode.FINDINGS
