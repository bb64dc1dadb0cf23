"""Options about reading and decoding, and what the commands on Spark have in common: a session whose errors
become sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import click

from stratalog.cli.options import since_option, until_option
from stratalog.cli.output import Command, Output
from stratalog.errors import UsageError
from stratalog.jobs.decoding.asked import DECODED, ENCODING_NAMES, Encoding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stratalog.engine.engine import Engine


def parse_settings(
    _context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """Parse NAME=VALUE, which can be repeated with other names. Spark ignores the case of a name."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param=parameter)
        if name.lower() in (known.lower() for known in found):
            raise click.BadParameter(f"{name} is given twice: leave one of them out.", param=parameter)
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
        click.option(
            "--headers", is_flag=True, help="Also read the headers of records (the column `headers`)."
        ),
        until_option,
        since_option,
    ):
        command = option(command)
    return command


def decoding_options(command: Command) -> Command:
    """Adds the options that say how keys and values are decoded.

    The command gets them as `decoding`, under the names of the source's options.
    """

    @wraps(command)
    def collected(*arguments: Any, **given: Any) -> object:  # Any: whatever the command takes
        found = {option: given.pop(name) for name, option in _DECODING.items()}
        decoding = {option: text for option, text in found.items() if text is not None}
        return command(*arguments, decoding=decoding, **given)

    decorated = cast(Command, collected)
    for what in reversed(DECODED):
        for option in reversed(_options_of(what)):
            decorated = option(decorated)
    return decorated


def schema_options(command: Command) -> Command:
    """Adds the decoding options except --key and --value, for commands in which --key selects records."""

    @wraps(command)
    def collected(*arguments: Any, **given: Any) -> object:  # Any: whatever the command takes
        names = [name for name in _DECODING if name not in DECODED]
        found = {_DECODING[name]: given.pop(name) for name in names}
        decoding = {option: text for option, text in found.items() if text is not None}
        return command(*arguments, decoding=decoding, **given)

    decorated = cast(Command, collected)
    for what in reversed(DECODED):
        for option in reversed(_options_of(what)[1:]):
            decorated = option(decorated)
    return decorated


# The options of a command, and what the source calls them.
_DECODING = {
    "key": "keyEncoding",
    "key_schema": "keySchema",
    "key_reader": "keyReader",
    "value": "valueEncoding",
    "value_schema": "valueSchema",
    "value_reader": "valueReader",
}


def _options_of(what: str) -> list[Callable[[Command], Command]]:
    return [
        click.option(
            f"--{what}",
            type=click.Choice(ENCODING_NAMES),
            metavar="ENCODING",
            help=f"The format of {what}s: {', '.join(each.value for each in Encoding)}.",
        ),
        click.option(
            f"--{what}-schema",
            metavar="SCHEMAS",
            help=f"The schemas of {what}s. For avro: the schema file. For confluent: 7=a.avsc,8=b.avsc, or a "
            "folder with 7.avsc (default: the topic _schemas).",
        ),
        click.option(
            f"--{what}-reader",
            metavar="SCHEMA",
            help=f"Read all {what}s as this schema. For avro: a file (default: their own). For confluent: an "
            "id, SUBJECT[:VERSION] or a file (default: the newest).",
        ),
    ]


def source_options(
    *,
    headers: bool,
    batch_metadata: bool,
    committed: bool,
    options: dict[str, str],
    decoding: dict[str, str] | None = None,
) -> dict[str, str]:
    """The flags as options of the source, together with options given by name."""
    flags = {"includeHeaders": headers, "includeBatchMetadata": batch_metadata}
    given = {name: "true" for name, is_set in flags.items() if is_set} | (decoding or {})
    if committed:
        given["isolation"] = "read_committed"
    known = {name.lower() for name in given}
    doubled = next((name for name in options if name.lower() in known), None)
    if doubled is not None:
        raise UsageError(
            f"{doubled} is given twice, by --option and by an option of its own: leave one of them out."
        )
    return given | options


engine_option = click.option(
    "--master",
    metavar="MASTER",
    help="Run the tasks on this Spark master, such as local[*] or spark://host:7077.  [default: threads "
    "of this process, without Java]",
)


by_host_option = click.option(
    "--by-host",
    "by_host",
    is_flag=True,
    help="With --master: each host reads its own disks, one task a host. Write HOST:DIR for a directory of "
    "one host, or DIR for every host that has it.",
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
    from tempfile import TemporaryDirectory

    from stratalog.spark.session import require_pyspark, session

    require_pyspark()
    if output.is_watched:
        output.say(f"Starting Spark on {master} ...")
    from stratalog.spark.plain_errors import plain_errors

    # Spark creates a folder for tables in the current directory. That may be a log directory, and a broker
    # does not start if it finds a folder in it that is not a partition.
    with (
        TemporaryDirectory(prefix="stratalog-warehouse-") as warehouse,
        session(name, master=master, settings={"spark.sql.warehouse.dir": warehouse}) as spark,
        plain_errors(),
    ):
        yield spark
