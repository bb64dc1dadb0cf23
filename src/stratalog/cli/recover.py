"""`stratalog recover`: what a broker does when it starts after a crash, at the speed of the disk."""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import (
    check_directories,
    config_option,
    directories_argument,
    dry_run_option,
    topic_settings_option,
    topic_sources,
)
from stratalog.cli.output import ExitCode, Output, output_options
from stratalog.cli.spark_options import engine_option, started_engine
from stratalog.errors import UsageError
from stratalog.files.paths import absolute_path

_DIRECTORY = click.Path(exists=True, file_okay=False)


@click.command(short_help="Recover the directories of a broker that has crashed.")
@directories_argument
@config_option
@topic_settings_option
@dry_run_option
@click.option("--all", "scan_all", is_flag=True, help="Read every segment, also of clean directories.")
@click.option("--process-crash", is_flag=True, help="Only the process died: keep the broker's epoch.")
@click.option(
    "--salvage",
    is_flag=True,
    help="Keep what is readable after damage; use this only for the last copy of the data.",
)
@click.option(
    "--keep-open-transactions",
    is_flag=True,
    help="With --salvage: also keep batches of transactions that were open where the damage is.",
)
@click.option(
    "--readers",
    type=click.IntRange(1, 256),
    help="The number of readers for each device; by default as many as make reading faster.",
)
@engine_option
@click.option(
    "--quarantine", type=_DIRECTORY, metavar="DIR", help="Keep the bytes that are cut off in this directory."
)
@click.option("--no-quarantine", is_flag=True, help="Do not keep the bytes that are cut off.")
@click.option(
    "--work-dir",
    type=_DIRECTORY,
    metavar="DIR",
    help="A directory with free space, for a log directory whose disk is full.",
)
@output_options
@click.pass_obj
def recover(
    output: Output,
    *,
    directories: tuple[str, ...],
    config: Path | None,
    topic_settings: Path | None,
    dry_run: bool,
    scan_all: bool,
    process_crash: bool,
    salvage: bool,
    keep_open_transactions: bool,
    readers: int | None,
    master: str | None,
    quarantine: str | None,
    no_quarantine: bool,
    work_dir: str | None,
) -> ExitCode:
    """Bring the log directories of a stopped broker to the state that a clean shutdown leaves.

    Name all log directories of one broker, as DIR or with --config. The broker then starts in seconds. Bytes
    that are cut off are kept in quarantine. The command can be killed and run again.

    Exit status: 0 if nothing is lost; 1 if something was cut off or found; 2 for wrong usage; 3 if the
    command refused or failed, or a broker will not start here. The last sentence of the report says whether
    the broker may be started.
    """
    from stratalog.directory.known_topics import check_settings
    from stratalog.files.reading import DiskReader
    from stratalog.operations.recover import RecoverOptions
    from stratalog.operations.recover import recover as recover_log_directories

    if quarantine is not None and no_quarantine:
        raise UsageError("--quarantine and --no-quarantine contradict each other.")
    if keep_open_transactions and not salvage:
        raise UsageError("--keep-open-transactions has a meaning only with --salvage: give both.")
    if master is not None and readers is not None:
        raise UsageError(
            "--readers sets the threads of this process, but with --master Spark's cores read: leave one out."
        )
    broker = BrokerFiles.of(config, directories)
    check_directories(directories)
    sources = topic_sources(broker, topic_settings)
    check_settings(DiskReader(), broker.directories, sources)
    if process_crash and (missing := broker.not_named()):
        raise UsageError(
            f"--process-crash needs all directories of log.dirs, and {', '.join(missing)} is not named."
        )
    options = RecoverOptions(
        server=broker.server,
        topic_settings=sources.topic_settings,
        metadata_directory=broker.metadata_directory,
        node_id=broker.node_id,
        log_dirs=broker.log_dirs,
        dry_run=dry_run,
        scan_all=scan_all,
        salvage=salvage,
        keep_open_transactions=keep_open_transactions,
        process_crash=process_crash,
        readers=readers,
        quarantine=None if quarantine is None else absolute_path(quarantine),
        keeps_cuts=not no_quarantine,
        work_dir=None if work_dir is None else absolute_path(work_dir),
    )
    with started_engine(output, "recover", master) as engine, output.progress() as on_progress:
        report = recover_log_directories(broker.directories, options, engine=engine, on_progress=on_progress)
    for note in broker.notes:
        output.say(note)
    return output.report(report)
