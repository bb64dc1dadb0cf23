"""`stratalog recover`: what a broker does after a crash, before it starts, at the speed of the disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from stratalog.cli.output import ExitCode, Output, json_option
from stratalog.cli.recover_watch import watching
from stratalog.config import ServerConfig, parse_properties, read_server_properties
from stratalog.errors import UsageError

_DIRECTORY = click.Path(exists=True, file_okay=False)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("directories", nargs=-1, metavar="[DIR]...")
@click.option("--config", type=_FILE, help="The broker's server.properties: its log.dirs and settings.")
@click.option("--topics", type=_FILE, help="Settings of topics, as JSON, over those of the cluster.")
@click.option("--dry-run", is_flag=True, help="Show the plan; lock, rename and change nothing.")
@click.option("--all", "scan_all", is_flag=True, help="Read every segment, also of clean directories.")
@click.option("--process-crash", is_flag=True, help="Only the process died: keep the broker's epoch.")
@click.option("--salvage", is_flag=True, help="Keep what is readable behind damage (the last copy).")
@click.option("--keep-open-transactions", is_flag=True, help="With --salvage: also those open at the gap.")
@click.option("--readers", type=click.IntRange(1, 256), help="So many for each device; else measured.")
@click.option("--quarantine", type=_DIRECTORY, metavar="DIR", help="Keep what is cut off here.")
@click.option("--no-quarantine", is_flag=True, help="Do not keep what is cut off.")
@click.option("--work-dir", type=_DIRECTORY, metavar="DIR", help="Room for a log directory that is full.")
@json_option
@click.pass_obj
def recover(
    output: Output,
    *,
    directories: tuple[str, ...],
    config: Path | None,
    topics: Path | None,
    dry_run: bool,
    scan_all: bool,
    process_crash: bool,
    salvage: bool,
    keep_open_transactions: bool,
    readers: int | None,
    quarantine: str | None,
    no_quarantine: bool,
    work_dir: str | None,
) -> ExitCode:
    """Bring the log directories of a stopped broker to the state that a clean shutdown leaves.

    DIR are all log directories of one broker; or --config names them. The broker then starts in seconds.
    What is cut off is kept, in quarantine. Can be killed and run again.

    Exit status: 0 nothing was cut off, 1 recovered with cuts or findings, 2 wrong usage, 3 refused or failed.
    """
    from stratalog.cli.recover_report import show_report
    from stratalog.directory.recovery.recover import RecoverOptions, recover_directories

    if quarantine is not None and no_quarantine:
        raise UsageError("--quarantine and --no-quarantine contradict each other.")
    if keep_open_transactions and not salvage:
        raise UsageError("--keep-open-transactions says what --salvage does: give both.")
    broker = _Broker.of(config, directories)
    if process_crash and (missing := broker.not_named()):
        raise UsageError(f"--process-crash is about all of log.dirs, and {', '.join(missing)} is not named.")
    with watching(output) as on_progress:
        report = recover_directories(
            broker.directories,
            server=broker.server,
            topic_settings=None if topics is None else topics.read_text("utf-8"),
            metadata_directory=broker.metadata_directory,
            options=RecoverOptions(
                dry_run=dry_run,
                scan_all=scan_all,
                salvage=salvage,
                keep_open_transactions=keep_open_transactions,
                process_crash=process_crash,
                readers=readers,
                quarantine=None if quarantine is None else os.path.abspath(quarantine),  # noqa: PTH100
                keeps_cuts=not no_quarantine,
                work_dir=None if work_dir is None else os.path.abspath(work_dir),  # noqa: PTH100
            ),
            on_progress=on_progress,
        )
    for note in broker.notes:
        output.say(note)
    show_report(output, report, is_dry_run=dry_run)
    if report.is_failed:
        return ExitCode.FAILED
    return ExitCode.FINDINGS if report.has_findings else ExitCode.FINE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broker:
    """What the command line and a server.properties say about a broker's directories."""

    directories: tuple[str, ...]
    server: ServerConfig | None = None
    metadata_directory: str | None = None

    @classmethod
    def of(cls, config: Path | None, directories: tuple[str, ...]) -> _Broker:
        if config is None:
            if not directories:
                raise UsageError("name the log directories, or the broker's server.properties by --config.")
            return cls(directories=directories)
        # Java reads properties as Latin-1.
        text = config.read_text("latin-1")
        server = read_server_properties(text)
        return cls(
            directories=directories or server.manager.log_dirs,
            server=server,
            metadata_directory=parse_properties(text).get("metadata.log.dir") or None,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.server is None else self.server.notes

    def not_named(self) -> list[str]:
        """The directories of the broker that are not to be recovered."""
        named = {os.path.realpath(directory) for directory in self.directories}
        every = () if self.server is None else self.server.manager.log_dirs
        return [directory for directory in every if os.path.realpath(directory) not in named]
