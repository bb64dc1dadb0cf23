"""What can be chosen for a recovery of log directories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stratalog.log.recovery.plan import RecoveryPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryChoices:
    """What an operator can ask for.

    `process_crash`: only the process died, not the machine, so nothing written can be lost. `quarantine`:
    the directory that keeps what is cut off, in place of the log directory itself; `keeps_cuts` False: none.
    `work_dir`: a directory with room, for what a full disk has none for (`work_dir.py`).
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
    user: int | None = None  # who writes; the process's own user unless told otherwise
    on_plan: Callable[[RecoveryPlan], object] | None = None  # is given each partition's plan by a dry run
