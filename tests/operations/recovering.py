"""Runs of `recover` on copies of a broker's directory."""

from __future__ import annotations

from pathlib import Path

from stratalog.operations.recover import RecoverOptions, RecoverReport, recover
from tests.directory.recovery.recovering import (
    SERVER,
    files_of,
)


def run(*directories: Path, **options: object) -> RecoverReport:
    return recover(list(map(str, directories)), RecoverOptions(server=SERVER, **options))  # type: ignore[arg-type]


def both(directory: Path, **options: object) -> tuple[RecoverReport, RecoverReport]:
    """The dry run, which must change nothing, and the run."""
    before = files_of(directory)
    plan = run(directory, dry_run=True, **options)
    assert files_of(directory) == before
    return plan, run(directory, **options)
