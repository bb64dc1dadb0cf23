"""`stratalog doctor`: may the broker be started here?"""

from __future__ import annotations

from pathlib import Path

import click

from stratalog.cli.broker import BrokerFiles
from stratalog.cli.options import check_directories, config_option, directories_argument
from stratalog.cli.output import ExitCode, Output, output_options


@click.command(short_help="May the broker be started here? If not, what to do.")
@directories_argument
@config_option
@output_options
@click.pass_obj
def doctor(output: Output, *, directories: tuple[str, ...], config: Path | None) -> ExitCode:
    """Say whether a broker can be started here; if not, why not, and what to do.

    Name all log directories of one broker, as DIR or with --config. Nothing is locked or changed; a broker
    may run. Only names, sizes, small files and the ends of logs are read, so it takes seconds; `audit` checks
    every byte.

    Exit status: 0 if a broker can be started; 1 if it can, but would not serve every partition; 2 for wrong
    usage; 3 if Kafka would refuse to start, or take a directory offline, or if this user may not read a file.
    """
    from stratalog.operations.doctor import Checkup

    broker = BrokerFiles.of(config, directories)
    check_directories(directories)
    checkup = Checkup(
        directories=broker.directories,
        siblings=broker.log_dirs,
        metadata_directory=broker.metadata_place,
        node_id=broker.node_id,
        is_controller="controller" in broker.roles,
        is_whole_node=broker.metadata_place is not None,
    )
    return output.report(checkup.run())
