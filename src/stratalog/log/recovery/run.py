"""Recovers one partition from end to end. Other callers plan with these functions, and apply later."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from stratalog.config import LogConfig
from stratalog.files.disk import Disk, Path
from stratalog.files.names import TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.recovery.applied import Applied
from stratalog.log.recovery.facts import Cut
from stratalog.log.recovery.plan import MISSING, RecoveryPlan, is_split, plan_recovery
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.salvage_search import Search
from stratalog.log.recovery.salvaging import is_damaged, salvage_results
from stratalog.log.recovery.steps import Files, Keeping, KeepRange, steps_in_rounds, write_rounds
from stratalog.log.recovery.survey import Survey, SurveyOptions, survey_partition
from stratalog.log.recovery.task import ScanResult, run_scan
from stratalog.records.kernels.memory import Bytes

logger = logging.getLogger(__name__)


def recover_partition(
    disk: Disk,
    directory: Path,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    now_ms: int,
    quarantine: Quarantine | None,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    options: SurveyOptions | None = None,
    before_change: Callable[[], object] | None = None,
    on_plan: Callable[[RecoveryPlan], object] | None = None,
) -> RecoveryPlan:
    """Bring a partition to the state that a clean shutdown leaves; it is on the device when this returns.

    The segments are scanned one after the other, in this thread. `on_plan` is called with the plan.
    Then `before_change` is called once, before the first file is changed. If no file is changed, it is not
    called.
    """
    survey = survey_partition(
        disk,
        directory,
        topic_partition=topic_partition,
        config=config,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        now_ms=now_ms,
        options=options,
    )
    plan = plan_scanned(disk, survey, {task.name: run_scan(disk, task) for task in survey.scans})
    if on_plan is not None:
        on_plan(plan)
    plan = apply_plan(disk, plan, quarantine, before_change=before_change)
    sync_accepted(disk, plan)
    for finding in plan.findings:
        level = logging.WARNING if finding.kind in MISSING else logging.INFO
        logger.log(level, "%s: %s %s %s", directory, finding.file, finding.words, finding.consequence)
    for cut in plan.cuts:
        logger.warning(
            "%s: %d bytes of %s from byte %d on are cut off: %s %s",
            directory,
            cut.size,
            cut.file,
            cut.position,
            cut.reason,
            _where_kept(cut),
        )
    return plan


def _where_kept(cut: Cut) -> str:
    if cut.kept_as is None:
        return "They are not kept."
    if not cut.kept_as:
        return "They are only zeros, counted in the manifest."
    return f"They are kept as {cut.kept_as}."


def plan_scanned(disk: DiskReader, survey: Survey, results: Mapping[str, ScanResult]) -> RecoveryPlan:
    """The plan of a partition whose scans are done; with `salvage`, damaged segments are read again."""
    if survey.options.salvage:
        survey, results = _with_flushed_damage(disk, survey, results)
    survey, results = _with_splits(disk, survey, results)
    if survey.options.salvage:
        results = salvage_results(disk, survey, results)
    plan = plan_recovery(survey, results)
    if plan.cuts and plan.is_only_torn_tail and any(_hides_batches(disk, survey, cut) for cut in plan.cuts):
        return replace(plan, is_only_torn_tail=False)
    return plan


def _with_flushed_damage(
    disk: DiskReader, survey: Survey, results: Mapping[str, ScanResult]
) -> tuple[Survey, Mapping[str, ScanResult]]:
    """The survey and the results with which damage in flushed segments can be salvaged too.

    A segment below the recovery point is never cut, because a replica may have its records. `salvage` says
    that there is no replica, and `scan_all` that these segments matter. So with both, the partition is
    surveyed once more, as if nothing from its first damaged segment on had been flushed.
    """
    segments = survey.inventory.segments
    next_bases = [files.base_offset for files in segments[1:]]
    damaged = (
        state.base_offset
        for files, state, next_base in zip_longest(segments, survey.segment_states(), next_bases)
        if state.is_protected and is_damaged(results.get(files.log_name), next_base)
    )
    first = next(damaged, None) if survey.options.scan_all else None
    if first is None:
        return survey, results
    options = replace(survey.options, had_clean_shutdown=False)
    return _looked_at_again(disk, survey, results, recovery_point=first, options=options)


def _with_splits(
    disk: DiskReader, survey: Survey, results: Mapping[str, ScanResult]
) -> tuple[Survey, Mapping[str, ScanResult]]:
    """The survey and the results with which segments can be split.

    A split deletes the snapshot at the segment's base, as a broker does. The survey, which did not know that
    the segment must be split, relied on it. Now an earlier snapshot and the batches after it must be read.
    """
    segments = survey.inventory.segments
    next_bases = [files.base_offset for files in segments[1:]]
    bases = {
        files.base_offset
        for files, next_base in zip_longest(segments, next_bases)
        if (result := results.get(files.log_name)) is not None and is_split(result, next_base)
    }
    if bases.isdisjoint(survey.inventory.snapshots):
        return survey, results
    return _looked_at_again(
        disk,
        survey,
        results,
        recovery_point=survey.settings.recovery_point,
        options=survey.options,
        split_bases=bases,
    )


def _looked_at_again(
    disk: DiskReader,
    survey: Survey,
    results: Mapping[str, ScanResult],
    *,
    recovery_point: int,
    options: SurveyOptions,
    split_bases: Collection[int] = (),
) -> tuple[Survey, Mapping[str, ScanResult]]:
    """The same partition, surveyed with what its scans have shown; only new tasks are run."""
    settings = survey.settings
    again = survey_partition(
        disk,
        survey.directory,
        topic_partition=survey.topic_partition,
        config=survey.config,
        recovery_point=recovery_point,
        log_start_offset=settings.log_start_offset,
        unknown_start=settings.unknown_start,
        now_ms=settings.now_ms,
        options=options,
        split_bases=split_bases,
    )
    known = {task: results[task.name] for task in survey.scans}
    return again, {task.name: known.get(task) or run_scan(disk, task) for task in again.scans}


def _hides_batches(disk: DiskReader, survey: Survey, cut: Cut) -> bool:
    """Whether a tail that looks like one unfinished batch contains whole batches.

    A length has no checksum: if a damaged length reaches past the end of the file, the batch looks like an
    unfinished write, whatever bytes follow it. But the crash of a process never leaves whole batches there.
    """
    path = next(task.path for task in survey.scans if task.name == cut.file)
    with disk.open_read(path) as file:

        def read_into(buffer: Bytes, position: int) -> int:
            return disk.read_into(file, buffer, position)

        search = Search(read_into, cut.position + cut.size, cut.first_offset - 1, -1, INT64_MAX, None)
        search.run(cut.position)
    return search.batches_count > 0


def apply_plan(
    disk: Disk,
    plan: RecoveryPlan,
    quarantine: Quarantine | None,
    *,
    full: Sequence[Quarantine] = (),
    before_change: Callable[[], object] | None = None,
) -> RecoveryPlan:
    """Do the steps of a plan; returns the plan, with the places where its cuts are kept.

    `full` are the quarantines that had too little room in an earlier attempt at this plan.
    """
    rounds = apply_in_rounds(disk, plan, quarantine, full=full, before_change=before_change)
    return write_rounds(disk, rounds)


def apply_in_rounds(
    disk: Disk,
    plan: RecoveryPlan,
    quarantine: Quarantine | None,
    *,
    full: Sequence[Quarantine] = (),
    before_change: Callable[[], object] | None = None,
    applied: Applied | None = None,
) -> Generator[Files, None, RecoveryPlan]:
    """As `apply_plan`, but it yields the files that must be written before it continues.

    `applied` is kept up to date.
    """
    disk.release(plan.directory)
    kept = yield from steps_in_rounds(
        disk, plan.directory, plan.steps, quarantine, full=full, before_change=before_change, applied=applied
    )
    disk.release(plan.directory)
    return with_names(plan, [(step, one.file, one.files) for step, one in kept])


def cuts_applied(plan: RecoveryPlan, applied: Applied) -> RecoveryPlan:
    """The plan after a step has failed, with only those cuts that are done or in quarantine."""
    named = with_names(plan, [(step, one.file, one.files) for step, one in applied.kept])
    done = (cut for cut in named.cuts if cut.kept_as is not None or cut.file in applied.shortened)
    return replace(named, cuts=tuple(done))


def with_names(plan: RecoveryPlan, kept: Iterable[tuple[Keeping, str, Sequence[str]]]) -> RecoveryPlan:
    """The plan, with the names in quarantine set in its cuts. `kept`: step, live name of the log, names."""
    places = {
        (file, step.position if isinstance(step, KeepRange) else 0): ", ".join(names)
        for step, file, names in kept
    }
    cuts = tuple(replace(cut, kept_as=places.get((cut.file, cut.position))) for cut in plan.cuts)
    return replace(plan, cuts=cuts)


def sync_accepted(disk: Disk, plan: RecoveryPlan) -> None:
    """Sync the files that were scanned and accepted, or cut; written files are already on the device."""
    disk.sync_all((join_path(plan.directory, name) for name in plan.accepted), [plan.directory])
