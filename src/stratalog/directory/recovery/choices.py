"""The options of a recovery of log directories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stratalog.engine.engine import Engine
from stratalog.log.recovery.plan import RecoveryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryChoices:
    """The operator's options.

    `process_crash`: only the process died, not the machine, so nothing written can be lost. `quarantine`: the
    directory that keeps what is cut off, instead of the log directory; with `keeps_cuts` False nothing is
    kept. `work_dir`: a directory with room, for files that do not fit on a full disk (`work_dir.py`).
    `engine` scans the segments; by default threads of this process, `readers` for each device.
    """

    dry_run: bool = False
    scan_all: bool = False
    salvage: bool = False
    keep_open_transactions: bool = False
    process_crash: bool = False
    readers: int | None = None
    quarantine: str | None = None
    keeps_cuts: bool = True
    work_dir: str | None = None
    engine: Engine | None = None
    user: int | None = None  # the user who writes; by default the process's own
    on_plan: Callable[[RecoveryPlan], object] | None = None  # called by a dry run with each partition's plan
