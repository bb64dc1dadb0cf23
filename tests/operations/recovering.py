"""Runs of `recover` on copies of a broker's directory."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from stratalog.engine.engine import Engine
from stratalog.operations.recover import RecoverOptions, RecoverReport, recover
from tests.directory.recovery.recovering import (
    SERVER,
    files_of,
)

NOW = 1_800_000_000_000


def run(*directories: Path, **options: object) -> RecoverReport:
    return recover(list(map(str, directories)), RecoverOptions(server=SERVER, **options))  # type: ignore[arg-type]


def both(directory: Path, **options: object) -> tuple[RecoverReport, RecoverReport]:
    """The dry run, which must change nothing, and the run."""
    before = files_of(directory)
    plan = run(directory, dry_run=True, **options)
    assert files_of(directory) == before
    return plan, run(directory, **options)


def left_by(engine: Engine | None, root: Path, directories: Sequence[Path], **options: object) -> object:
    """Everything that a run leaves in these directories below `root`, and its report, without the root."""
    asked = RecoverOptions(server=SERVER, **options)  # type: ignore[arg-type]
    report = recover([str(directory) for directory in directories], asked, engine=engine, clock=lambda: NOW)
    document = report.to_document()
    for key in ("seconds", "devices"):
        del document[key]
    files = {
        name: _lines(data, root) if name.endswith(".jsonl") else data for name, data in files_of(root).items()
    }
    return json.dumps(document, default=str).replace(str(root), ""), files


def _lines(data: bytes, root: Path) -> list[bytes]:
    """The lines of a quarantine without what differs between copies.

    They are in the order in which partitions were finished, and name the run and the inodes of files moved
    as a whole.
    """
    return sorted(
        re.sub(rb'"inode": \d+|"run": "\w+"', b"", data.replace(str(root).encode(), b"")).splitlines()
    )
