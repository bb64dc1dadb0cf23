"""The options that commands share, each written once, and their parsing.

Every command that works on log directories takes them as arguments, or takes the broker's server.properties
with --config.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.completion import complete_directories, complete_topics
from stratalog.cli.output import Command
from stratalog.clock import Clock, system_clock
from stratalog.config import ServerConfig
from stratalog.errors import UsageError

if TYPE_CHECKING:
    from stratalog.directory.known_topics import TopicSources
    from stratalog.directory.session import Unclean


# In seconds, these are times from 2001 to 2286; in milliseconds, of the first months of 1970.
_LIKE_SECONDS = range(10**9, 10**10)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def check_not_empty(
    context: click.Context, argument: click.Parameter, value: str | tuple[str, ...]
) -> str | tuple[str, ...]:
    """UsageError for an empty path: a script's variable that is not set must not mean this directory."""
    if "" in ((value,) if isinstance(value, str) else value):
        raise UsageError(
            f"an argument is empty, where {argument.make_metavar(context)} is expected. If it is a variable "
            "of a script, check that it is set; write . for the current directory."
        )
    return value


directories_argument = click.argument(
    "directories",
    nargs=-1,
    metavar="[DIR]...",
    callback=check_not_empty,
    shell_complete=complete_directories,
)
places_argument = click.argument(
    "places",
    nargs=-1,
    metavar="[DIR|NAME]...",
    callback=check_not_empty,
    shell_complete=complete_directories,
)
config_option = click.option(
    "--config", type=FILE, help="The broker's server.properties: its log.dirs and settings."
)
topic_option = click.option(
    "--topic",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_topics,
    help="Only this topic or partition; repeatable.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show the plan; lock, rename and change nothing."
)
recover_option = click.option(
    "--recover",
    "recovers",
    is_flag=True,
    help="First recover directories that were not shut down cleanly, as `recover` does; they are refused "
    "otherwise.",
)


def parse_moment(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Parse milliseconds since 1970, or a date and time, which is in UTC unless it names a zone."""
    if text is None:
        return None
    if re.fullmatch(r"\d+", text):
        if int(text) in _LIKE_SECONDS:
            meant = datetime.fromtimestamp(int(text), UTC)
            words = f"{text} counts as milliseconds, so it is a time in 1970."
            click.echo(f"{words} If {meant:%Y-%m-%d} is meant, write {text}000.", err=True)
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        words = f"{text!r} is not a time: write milliseconds since 1970, or 2026-01-31T12:00:00."
        raise click.BadParameter(words) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


since_option = click.option(
    "--since",
    metavar="TIME",
    callback=parse_moment,
    help="Start at the first record at or after this time.",
)
until_option = click.option(
    "--until",
    metavar="TIME",
    callback=parse_moment,
    help="Stop before the first record at or after this time.",
)


def check_span(since: int | None, until: int | None) -> None:
    """UsageError if nothing can be between these times."""
    if since is not None and until is not None and since > until:
        raise UsageError("--since is later than --until, so there is nothing between them: exchange them.")


now_option = click.option(
    "--now",
    metavar="TIME",
    callback=parse_moment,
    help="Use this as the current time: milliseconds since 1970, or a date (UTC).",
)


def gone_option(name: str, hint: str) -> Callable[[Command], Command]:
    """A removed option: using it is an error that names its replacement."""

    def refuse(_context: click.Context, _option: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise UsageError(f"{name} is now {hint}.")

    return click.option(name, hidden=True, expose_value=False, callback=refuse)


def topic_settings_option(command: Command) -> Command:
    """Adds `--topic-settings`."""
    command = gone_option("--topics", "--topic-settings")(command)
    return click.option(
        "--topic-settings",
        type=FILE,
        help="A JSON file of topic settings; they override those of the cluster.",
    )(command)


def directory_options(command: Command) -> Command:
    """Adds the options for directories, topics, settings and the current time."""
    for option in (now_option, topic_settings_option, config_option, topic_option, directories_argument):
        command = option(command)
    return command


def change_options(command: Command) -> Command:
    """Adds the options of a command that changes log directories and refuses unclean ones."""
    for option in (dry_run_option, recover_option):
        command = option(command)
    return command


def check_directories(directories: tuple[str, ...]) -> None:
    """UsageError if a typed path is not a directory; in older versions it could be the name of a topic.

    A missing log directory of --config is not a usage error: its disk may not be mounted.
    """
    for directory in directories:
        if not _is_directory(directory):
            is_name = len(directories) > 1 and "/" not in directory
            hint = f" A topic is now given by --topic {directory}." if is_name else ""
            what = "is not a directory" if Path(directory).exists() else "does not exist"
            raise UsageError(f"{directory} {what}.{hint}")


def _is_directory(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except PermissionError:
        return True  # the code that reads it will report that


def split_places(places: tuple[str, ...], config: Path | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(log directories, names of topics and partitions) from what was typed as `[DIR|NAME]...`.

    The path of a partition's own directory means its log directory and its name. UsageError if a path is
    not a directory, or if nothing says where the names are.
    """
    from stratalog.directory.partitions import partition_at
    from stratalog.files.paths import absolute_path, last_name, parent_path
    from stratalog.files.reading import DiskReader

    directories: dict[str, None] = {}
    names: dict[str, None] = {}
    for place in places:
        if not _is_directory(place):
            if "/" in place:
                check_directories((place,))
            names[place] = None
        elif partition_at(DiskReader(), path := absolute_path(place)) is None:
            directories[path] = None
        else:
            directories[parent_path(path)] = None
            names[last_name(path)] = None
    if names and not directories and config is None:
        raise UsageError(
            f"{', '.join(names)}: there is no such directory here. For a topic or partition, also name the "
            "log directories, or give the broker's server.properties with --config."
        )
    return tuple(directories), tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line says about a node's directories, its settings and the time."""

    directories: tuple[str, ...]
    server: ServerConfig | None
    sources: TopicSources
    clock: Clock

    @classmethod
    def of(
        cls,
        directories: tuple[str, ...],
        config: Path | None,
        topic_settings: Path | None,
        now: int | None,
        *,
        are_here: bool = True,
    ) -> Request:
        """`are_here`: the directories are on this machine, and must exist."""
        from stratalog.directory.known_topics import check_settings
        from stratalog.files.reading import DiskReader

        broker = BrokerFiles.of(config, directories)
        sources = topic_sources(broker, topic_settings)
        if are_here:
            check_directories(directories)
            check_settings(DiskReader(), broker.directories, sources)
        return cls(
            directories=broker.directories,
            server=broker.server,
            sources=sources,
            clock=system_clock if now is None else lambda: now,
        )


def settings_text(file: Path) -> str:
    """The text of a file of --topic-settings; UsageError if it is not text."""
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--topic-settings {file} is not UTF-8: byte {error.start} is wrong.") from None


def topic_sources(broker: BrokerFiles, topic_settings: Path | None) -> TopicSources:
    """Where the settings of topics come from."""
    from stratalog.directory.known_topics import TopicSources

    return TopicSources(
        server=broker.server,
        topic_settings=None if topic_settings is None else settings_text(topic_settings),
        metadata_directory=broker.metadata_directory,
        node_id=broker.node_id,
    )


def unclean_choice(recovers: bool) -> Unclean:
    """What `--recover` says."""
    from stratalog.directory.session import Unclean

    return Unclean.RECOVER if recovers else Unclean.REFUSE
