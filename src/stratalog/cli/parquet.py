"""`--to FILE`: also writes the rows of a report to a Parquet file. Refuses places where a command may not
write."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stratalog.cli.output import Command
from stratalog.errors import DiskError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def parquet_option(words: str) -> Callable[[Command], Command]:
    """`--to FILE`; `words` say what its rows are."""
    return click.option("--to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=words)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write the table to a file; DiskError if that fails."""
    from pyarrow import parquet

    try:
        parquet.write_table(table, path)
    except OSError as error:
        raise DiskError(path, error.strerror or str(error), error.errno or 0) from error


def check_targets(files: Sequence[Path], directories: Sequence[str]) -> None:
    """Refuse a file whose folder does not exist, and a file in a log directory; called before hours of work.

    These commands only read, and must change nothing in a log directory. A file written there could overwrite
    a log.
    """
    for file in files:
        try:
            is_folder = file.absolute().parent.is_dir()
        except PermissionError as error:
            raise DiskError(file, "this user may not look into its folder", errno.EACCES) from error
        if not is_folder:
            raise DiskError(file, "its folder does not exist", errno.ENOENT)
        for directory in directories:
            if file.resolve().is_relative_to(Path(directory).resolve()):
                raise UsageError(f"{file} is inside a log directory, {directory}: write it elsewhere.")
