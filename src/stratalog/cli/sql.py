"""`stratalog sql`: a query over the topics of log directories, on Spark or by DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import check_not_empty, check_span, config_option
from stratalog.cli.output import ExitCode, Output
from stratalog.cli.spark_options import decoding_options, read_options, source_options, started_spark
from stratalog.errors import UsageError
from stratalog.operations.report import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from stratalog.jobs.reading.omissions import Omission


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[DIR]... QUERY", callback=check_not_empty)
@config_option
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How rows are printed; json prints one object a line.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="The most rows that a table shows; csv and json have all rows.",
)
@click.option(
    "--backend",
    type=click.Choice(["spark", "duckdb"]),
    default="spark",
    show_default=True,
    help="What runs the query; duckdb needs neither Spark nor Java.",
)
@decoding_options
@read_options
@click.pass_obj
def sql(
    output: Output,
    *,
    arguments: tuple[str, ...],
    config: Path | None,
    format_name: str,
    limit: int,
    backend: str,
    decoding: dict[str, str],
    since: int | None,
    until: int | None,
    headers: bool,
    batch_metadata: bool,
    committed: bool,
    options: dict[str, str],
    master: str,
) -> ExitCode:
    """Query log directories with Spark's SQL, or DuckDB's.

    Each topic is a view with the topic's name, which needs backquotes if it is not a plain word: SELECT
    count(*) FROM `web.clicks`. kafka_records has all topics; kafka_commits, kafka_groups, kafka_members,
    kafka_lag, kafka_transactions, kafka_partitions and kafka_metadata have what Kafka stores about itself.
    Keys and values are bytes, unless --key and --value say what is in them: CAST(value AS STRING) gives text.
    In DuckDB, use double quotes instead of backquotes, also for "offset" and "group"; decode(value) gives
    text.

    Exit status: 0 if the query was answered; 1 if it was, but some keys or values could not be decoded, or
    records were left out (--option onCorruption=skip); 2 for wrong usage; 3 if the command refused or failed.
    """
    from stratalog.scanning.words import python_words

    *given, query = arguments
    if not given and config is None:
        raise UsageError("give the log directories, or --config, and then the query in quotes.")
    paths = list(BrokerFiles.of(config, tuple(given)).directories)
    output.as_json = format_name == "json"  # for errors too
    check_span(since, until)
    asked: dict[str, Any] = {
        "since": since,
        "until": until,
        **source_options(
            headers=headers,
            batch_metadata=batch_metadata,
            committed=committed,
            decoding=decoding,
            options=options,
        ),
    }
    with python_words(_words(asked)):
        if backend == "duckdb":
            return _by_duckdb(output, paths, query, format_name, limit, asked)
        return _by_spark(output, paths, query, format_name, limit, asked, master)


def _words(asked: Mapping[str, object]) -> dict[str, str]:
    """For each flag that was given: the name of its option, and the flag that error messages name instead."""
    flags = {"since": "startingTimestamp", "until": "endingTimestamp"}
    return {option: f"--{name}" for name, option in flags.items() if asked[name] is not None}


def _by_spark(
    output: Output,
    paths: Sequence[str],
    query: str,
    format_name: str,
    limit: int,
    asked: dict[str, Any],
    master: str,
) -> ExitCode:
    from stratalog.spark.session import require_pyspark

    require_pyspark()
    from stratalog.spark.views import check_views, make_views

    omissions: list[Omission] = []
    check_views(paths, query, **asked)  # reports a wrong path or a missing schema before Spark starts
    with started_spark(output, "stratalog sql", master) as spark:
        make_views(spark, paths, query, on_omission=omissions.append, **asked)
        frame = spark.sql(query)
        rows = frame.limit(limit + 1) if format_name == "table" else frame
        _print(output, rows.toArrow(), format_name, limit)
    return _tell(output, omissions)


def _by_duckdb(
    output: Output, paths: Sequence[str], query: str, format_name: str, limit: int, asked: dict[str, Any]
) -> ExitCode:
    from stratalog.duckdb import answer
    from stratalog.jobs.reading.arguments import option_texts
    from stratalog.jobs.reading.options import ReadOptions

    omissions: list[Omission] = []
    options = ReadOptions.parse(option_texts(paths, **asked))
    rows = limit + 1 if format_name == "table" else None
    _print(output, answer(options, query, omissions.append, rows=rows), format_name, limit)
    return _tell(output, omissions)


def _tell(output: Output, omissions: Sequence[Omission]) -> ExitCode:
    """Say what the query left out or could not decode, which is a finding."""
    if not omissions:
        return ExitCode.FINE
    from stratalog.jobs.reading.omissions import summary

    output.say(summary(omissions))
    return ExitCode.FINDINGS


def _print(output: Output, found: pa.Table, format_name: str, limit: int) -> None:
    if format_name == "table":
        print_table(output, found, limit)
    elif format_name == "csv":
        _print_csv(found)
    else:
        from stratalog.scanning.values import json_text

        names = _names_for_json(found.column_names)
        for row in _rows(found):
            click.echo(json_text(dict(zip(names, row, strict=True))))


def print_table(output: Output, found: pa.Table, limit: int) -> None:
    """Show the first rows of the result."""
    numbers = [
        field.name for field in found.schema if str(field.type).startswith(("int", "double", "decimal"))
    ]
    columns = [f">{name}" if name in numbers else name for name in found.column_names]
    rows = [["" if cell is None else _shown(cell_text(cell)) for cell in row] for row in _rows(found)]
    output.show({}, Table(title="", columns=columns, rows=rows[:limit]))
    if len(rows) > limit:
        output.say(
            f"These are the first {limit} rows. --limit shows more; --format csv and --format json print all "
            "of them."
        )


def _print_csv(found: pa.Table) -> None:
    for row in chain([found.column_names], _rows(found)):
        sys.stdout.write(",".join(map(_csv_text, row)) + "\n")


def _csv_text(cell: object) -> str:
    """A value of RFC 4180: null is an empty field, and empty text is two quotes, so that the two differ."""
    if cell is None:
        return ""
    text = cell_text(cell)
    is_plain = text and not any(each in text for each in ',"\r\n')
    return text if is_plain else f'"{text.replace(chr(34), chr(34) * 2)}"'


def _names_for_json(names: list[str]) -> list[str]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"two columns are named {twice[0]}, and a JSON object cannot have both: rename one with AS."
        )
    return names


def _rows(found: pa.Table) -> Iterator[tuple[Any, ...]]:  # Any: a column can be of any type
    """The rows, as values in the order of the columns; not by name, because two columns may have the same."""
    from stratalog.scanning.values import column_values

    for batch in found.to_batches():
        yield from zip(*map(column_values, batch.columns), strict=True)


def _shown(text: str) -> str:
    """Text for a terminal, without control characters that would move the cursor or set a colour."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def cell_text(cell: object) -> str:
    """A value for a table or CSV: bytes as text, nested values as JSON."""
    from stratalog.scanning.values import json_text, plain

    if isinstance(cell, str):
        return cell
    if isinstance(cell, list | dict | bool):
        return json_text(cell)
    return str(plain(cell))
