"""Repairs partitions that a clean shutdown has not left quite as it should.

A broker whose cleaner has failed can still stop cleanly, but leaves `.cleaned` or `.swap` files. Its next
start deletes the `.cleaned` files and finishes the swaps, whether there is a clean-shutdown file or not. An
operation that replaces segments must do the same first: otherwise, after a crash of the operation, the next
start would mistake the new files for the leftovers, and delete them. An index may be missing as well; a start
rebuilds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.layout import LOADED
from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import CorruptCheckpointError, InvalidNameError, NeedsRecoveryError
from stratalog.files.disk import Disk
from stratalog.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    FileState,
    parse_partition_directory,
    parse_segment_file,
)
from stratalog.files.paths import command_text, join_path
from stratalog.files.reading import DiskReader
from stratalog.log.epochs import read_epochs
from stratalog.log.loader import check_loadable
from stratalog.log.recovery.facts import FindingKind
from stratalog.log.recovery.survey import SurveyOptions

if TYPE_CHECKING:
    from stratalog.log.recovery.plan import RecoveryPlan

_AS_CLOSED = SurveyOptions(had_clean_shutdown=True, scan_all=True)
_UNFINISHED = (FileState.CLEANED, FileState.SWAP)


def finish_replacements(
    disk: Disk, clock: Clock, directory: LogDirectory, name: str, config: LogConfig
) -> bool:
    """Finish or undo interrupted replacements in a partition's directory; returns whether there were any."""
    if not is_unfinished(disk, directory.path, name):
        return False
    repair_partition(disk, clock, directory, name, config, may_cut=False)
    return True


def is_unfinished(disk: DiskReader, directory: str, name: str) -> bool:
    """Whether a replacement of segments was interrupted in a partition's directory."""
    path = join_path(directory, name)
    is_loaded = parse_partition_directory(name).state in LOADED
    return is_loaded and disk.exists(path) and _has_unfinished(disk, path)


def repair_partition(
    disk: Disk,
    clock: Clock,
    directory: LogDirectory,
    name: str,
    config: LogConfig,
    *,
    may_cut: bool = True,
) -> None:
    """Bring a partition to the state that a clean close leaves, as a start after a clean stop would.

    Raises NeedsRecoveryError, before anything is changed, if bytes of its log must be cut off but `may_cut`
    is False, or if bytes follow the last whole batch of its log.
    """
    from stratalog.log.recovery.quarantine import Quarantine  # rarely needed
    from stratalog.log.recovery.run import recover_partition

    key = parse_partition_directory(name).topic_partition

    def on_plan(plan: RecoveryPlan) -> None:
        _check(plan, directory.path, may_cut=may_cut)
        if plan.cuts or plan.misses_records:
            directory.before_change()
            # before the cut: after a kill, nothing else would show that something was cut
            directory.forget_epoch()

    recover_partition(
        disk,
        join_path(directory.path, name),
        topic_partition=key,
        config=config,
        now_ms=clock(),
        quarantine=Quarantine(disk, directory.path, clock=clock),
        log_start_offset=max(0, directory.checkpoints.log_start_offsets.read().get(key, 0)),
        options=_AS_CLOSED,
        before_change=directory.before_change,
        on_plan=on_plan,
    )


def plan_repair(disk: DiskReader, clock: Clock, directory: str, name: str, config: LogConfig) -> RecoveryPlan:
    """What `repair_partition` would do with `may_cut` False; NeedsRecoveryError if it would refuse."""
    from stratalog.log.recovery.run import plan_scanned
    from stratalog.log.recovery.survey import survey_partition
    from stratalog.log.recovery.task import run_scan

    key = parse_partition_directory(name).topic_partition
    survey = survey_partition(
        disk,
        join_path(directory, name),
        topic_partition=key,
        config=config,
        log_start_offset=max(0, DirectoryCheckpoints(disk, directory).log_start_offsets.read().get(key, 0)),
        now_ms=clock(),
        options=_AS_CLOSED,
    )
    plan = plan_scanned(disk, survey, {task.name: run_scan(disk, task) for task in survey.scans})
    _check(plan, directory, may_cut=False)
    return plan


def why_not_loaded(
    disk: DiskReader, clock: Clock, directory: str, name: str, config: LogConfig
) -> str | None:
    """Why a partition of a clean directory cannot be changed before `recover --all`; None if it can be.

    Problems that `repair_partition` repairs without a cut are ignored, and so are folders marked -delete or
    -stray, which our code does not load. Changes nothing.
    """
    path = join_path(directory, name)
    if parse_partition_directory(name).state not in LOADED or not disk.exists(path):
        return None
    try:
        try:
            check_loadable(disk, path, config)
        except NeedsRecoveryError:
            plan_repair(disk, clock, directory, name, config)
            read_epochs(disk, join_path(path, LEADER_EPOCH_CHECKPOINT))
    except CorruptCheckpointError as error:
        return f"{error} Run {command_text('recover', '--all', directory)} first, which rewrites it."
    except NeedsRecoveryError as error:
        return str(error)
    return None


def _check(plan: RecoveryPlan, directory: str, *, may_cut: bool) -> None:
    torn = next((found for found in plan.findings if found.kind is FindingKind.TORN_END), None)
    if torn is not None:
        finding = f"{torn.file}: {torn.words.rstrip('.')}, though the directory was shut down cleanly"
    elif plan.cuts and not may_cut:
        finding = (
            f"{plan.cuts[0].size} bytes of {plan.cuts[0].file} must be cut off, though the directory was "
            f"shut down cleanly: {plan.cuts[0].reason.rstrip('.')}"
        )
    else:
        return
    raise NeedsRecoveryError(
        plan.directory, finding, f"Run {command_text('recover', '--all', directory)} first."
    )


def _has_unfinished(disk: DiskReader, directory: str) -> bool:
    for entry in disk.list_directory(directory):
        try:
            file = parse_segment_file(entry.name)
        except InvalidNameError:  # reported when the partition is read
            continue
        if file is not None and file.state in _UNFINISHED:
            return True
    return False
