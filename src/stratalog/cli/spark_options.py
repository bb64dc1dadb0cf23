"""What the commands on Spark share: their options, and a session whose errors become sentences."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from stratalog.cli.output import Command, Output
from stratalog.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stratalog.engine.engine import Engine


def parse_settings(
    _context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """NAME=VALUE, repeated any number of times."""
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param=parameter)
        found[name] = value
    return found


def read_options(command: Command) -> Command:
    """Adds the options that say which records are read, and by which Spark."""
    for option in (
        click.option("--master", default="local[*]", show_default=True, help="The Spark master."),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="NAME=VALUE",
            callback=parse_settings,
            help="An option of the source, such as onCorruption=skip; can be given several times.",
        ),
        click.option("--committed", is_flag=True, help="Leave out records of aborted and open transactions."),
        click.option(
            "--batch-metadata", is_flag=True, help="Also read the columns about each record's batch."
        ),
        click.option("--headers", is_flag=True, help="Also read the column headers."),
        click.option("--until", metavar="TIME", help="Stop before the first record of this time or later."),
        click.option("--since", metavar="TIME", help="Start at the first record of this time or later."),
    ):
        command = option(command)
    return command


def source_options(
    *, headers: bool, batch_metadata: bool, committed: bool, options: dict[str, str]
) -> dict[str, str]:
    """The flags as options of the source, together with options given by name."""
    flags = {"includeHeaders": headers, "includeBatchMetadata": batch_metadata}
    given = {name: "true" for name, is_set in flags.items() if is_set}
    if committed:
        given["isolation"] = "read_committed"
    doubled = {name.lower() for name in given} & {name.lower() for name in options}
    if doubled:
        raise UsageError(f"{', '.join(sorted(doubled))} is given twice, by --option and by a flag.")
    return given | options


engine_option = click.option(
    "--master",
    metavar="MASTER",
    help="Run the tasks on this Spark master, such as local[*] or spark://host:7077.  [default: threads "
    "of this process, without Java]",
)


@contextmanager
def started_engine(output: Output, name: str, master: str | None) -> Iterator[Engine | None]:
    """What `--master` says: an engine on Spark, or None for threads of this process."""
    if master is None:
        yield None
        return
    with started_spark(output, name, master) as spark:
        from stratalog.spark.engine import SparkEngine

        yield SparkEngine(spark)


@contextmanager
def started_spark(output: Output, name: str, master: str) -> Iterator[SparkSession]:
    """A session for one command; errors that Spark raises inside the block become sentences."""
    from stratalog.spark.session import require_pyspark, session

    require_pyspark()
    if output.is_watched:
        output.say(f"Starting Spark on {master} ...")
    from stratalog.spark.plain_errors import plain_errors

    # Spark creates a folder for tables in the current directory. That may be a log directory, and a broker
    # does not start if it finds a folder in it that is not a partition.
    with (
        tempfile.TemporaryDirectory(prefix="stratalog-warehouse-") as warehouse,
        session(name, master=master, settings={"spark.sql.warehouse.dir": warehouse}) as spark,
        plain_errors(),
    ):
        yield spark
