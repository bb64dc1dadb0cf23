"""Plans and applies each partition as soon as its scans are done, in a separate thread beside the readers.

So the readers continue while the device syncs. Only a few scanned partitions may wait in memory to be
finished: if there are too many, the thread that collects the scans waits, and with it the readers. All
partitions that wait are finished together, because the device syncs many files in little more time than one
file. First each partition does its steps up to the first file that must be written. Then the files of all
these partitions are written together, and so on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from stratalog.directory.layout import PartitionEntry
from stratalog.directory.recovery.directory_recovery import DirectoryRecovery
from stratalog.directory.recovery.result import PartitionReport
from stratalog.errors import DiskError, QuarantineFullError, StratalogError
from stratalog.files.disk import Disk
from stratalog.files.paths import join_path
from stratalog.log.recovery.applied import Applied
from stratalog.log.recovery.facts import Cut
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.quarantine import FileRange, Quarantine
from stratalog.log.recovery.run import apply_in_rounds, cuts_applied, plan_scanned, with_names
from stratalog.log.recovery.steps import Files, names_in_quarantine, ranges_to_keep
from stratalog.log.recovery.survey import Survey
from stratalog.log.recovery.task import ScanResult, ScanTask

# This many partitions of any size may wait. More may wait, and are finished together, as long as their logs
# have at most _TOGETHER_SIZE bytes in total. A result takes 1/200 of the log's size for the indexes, and a
# little more for each segment.
_WAITING = 4
_TOGETHER_SIZE = 2 << 30
_SIZE_OF_A_SCAN = 64 << 10
_TICK_S = 0.05
_ZEROS = "(only zeros, counted in the manifest)"

# The quarantines for what is cut off, in the order in which they are tried; if empty, nothing is kept.
QuarantinesOf = Callable[[DirectoryRecovery], Sequence[Quarantine]]


class PartitionRecovery:
    """One partition during recovery: its survey, and the scans done so far."""

    def __init__(self, directory: DirectoryRecovery, entry: PartitionEntry, survey: Survey) -> None:
        self.directory = directory
        self.entry = entry
        self.survey = survey
        self.segments_remaining = len(survey.scans)
        self.is_finished = False
        self.size = sum(task.size + _SIZE_OF_A_SCAN for task in survey.scans)
        self.applied = Applied()
        self.to_apply: RecoveryPlan | None = None  # while it is applied
        self._results: dict[str, ScanResult] = {}
        self._lock = threading.Lock()

    def add(self, task: ScanTask, result: ScanResult) -> bool:
        """Add a scan; True for the last one."""
        with self._lock:
            self._results[task.name] = result
            self.segments_remaining -= 1
            return self.segments_remaining == 0

    def take_results(self) -> Mapping[str, ScanResult]:
        """All scans; they are no longer held here."""
        results, self._results = self._results, {}
        return results


class Finisher:
    """The thread. Use it in a `with`, whose end waits for the thread and raises its error."""

    def __init__(
        self,
        disk: Disk,
        quarantines_of: QuarantinesOf,
        *,
        dry_run: bool,
        on_plan: Callable[[RecoveryPlan], object] | None = None,
    ) -> None:
        self._disk = disk
        self._quarantines_of = quarantines_of
        self._dry_run = dry_run
        self._on_plan = on_plan
        # For a dry run: what would be kept in each quarantine, by its directory.
        self._planned: dict[str, list[FileRange]] = {}
        self._waiting: list[PartitionRecovery] = []
        self._waiting_size = 0
        self._is_ended = False
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="stratalog-finish")

    def put(self, work: PartitionRecovery, on_wait: Callable[[], object] = lambda: None) -> None:
        """Hand over a partition whose scans are done; while too many wait, this waits and calls `on_wait`."""
        with self._changed:
            while self._has_too_many():
                if not self._changed.wait(_TICK_S):
                    on_wait()
            self._waiting.append(work)
            self._waiting_size += work.size
            self._changed.notify()
        if self._failure is not None:
            raise self._failure

    def _has_too_many(self) -> bool:
        return len(self._waiting) >= _WAITING and self._waiting_size > _TOGETHER_SIZE

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # An interrupt or a bug: partitions that were not begun are dropped.
            self._failure = self._failure or error
        with self._changed:
            self._is_ended = True
            self._changed.notify()
        self._thread.join()
        if error is None and self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while works := self._take():
            if self._failure is not None:
                continue
            try:
                self._finish(works)
            except BaseException as error:  # raised again in the caller's thread
                self._failure = error

    def _take(self) -> list[PartitionRecovery]:
        """The partitions to finish together: the first that wait, until they have _TOGETHER_SIZE bytes.

        An empty list ends the thread.
        """
        with self._changed:
            while not self._waiting and not self._is_ended:
                self._changed.wait()
            count = size = 0
            while count < len(self._waiting) and size < _TOGETHER_SIZE:
                size += self._waiting[count].size
                count += 1
            works, self._waiting = self._waiting[:count], self._waiting[count:]
            self._waiting_size -= size
            self._changed.notify()
        return works

    def _finish(self, works: Sequence[PartitionRecovery]) -> None:
        """Plan and apply these partitions, round by round; an error fails only its directory.

        After an error, no other partition of its directory is begun. Partitions that were begun go on,
        because the report must list what was cut off.
        """
        waiting: list[tuple[PartitionRecovery, Generator[Files, None, RecoveryPlan]]] = []
        plans: list[tuple[PartitionRecovery, RecoveryPlan]] = []
        files: list[tuple[PartitionRecovery, Files]] = []

        def go_on(work: PartitionRecovery, rounds: Generator[Files, None, RecoveryPlan]) -> None:
            try:
                files.append((work, next(rounds)))
                waiting.append((work, rounds))
            except StopIteration as end:
                plans.append((work, end.value))
            except StratalogError as error:
                self._fail(work, error)

        for work in works:
            if work.directory.error is None:
                go_on(work, self._rounds(work))
        while waiting:
            failed = self._replace(files)
            running = [(work, rounds) for work, rounds in waiting if work not in failed]
            waiting.clear()
            files.clear()
            for work, rounds in running:
                go_on(work, rounds)
        failed = set() if self._dry_run else self._sync(plans)
        for work, plan in plans:
            if work not in failed:
                work.directory.partitions[work.entry.name] = _report(work, plan)
                work.is_finished = True

    def _replace(self, found: Sequence[tuple[PartitionRecovery, Files]]) -> set[PartitionRecovery]:
        """Write the files; returns the partitions that failed."""
        failed = set()
        try:
            self._disk.replace_all([file for _, files in found for file in files])
        except DiskError:
            # The files are written again, partition by partition: if one partition cannot be written, the
            # others must not fail too.
            for work, files in found:
                try:
                    self._disk.replace_all(files)
                except StratalogError as error:
                    self._fail(work, error)
                    failed.add(work)
        return failed

    def _fail(self, work: PartitionRecovery, error: StratalogError) -> None:
        """Fail the directory; what was already cut off from the partition is reported.

        The next run finds nothing to cut there, and can at best say how many bytes were cut.
        """
        work.directory.fail(error)
        if work.to_apply is None:
            return
        plan = cuts_applied(work.to_apply, work.applied)
        if plan.cuts:
            plan = self._with_places(plan, self._quarantines_of(work.directory), work.directory.path)
            work.directory.partitions[work.entry.name] = PartitionReport(
                name=work.entry.name,
                topic_partition=work.entry.topic_partition,
                scanned_bytes=plan.scanned_bytes,
                is_changed=True,
                is_only_torn_tail=plan.is_only_torn_tail,
                cuts=plan.cuts,
            )

    def _sync(self, plans: Sequence[tuple[PartitionRecovery, RecoveryPlan]]) -> set[PartitionRecovery]:
        """Sync the files that were accepted or cut, and the names; returns the partitions that failed.

        After an error the sync is never tried again, because a second sync would not report the error.
        """
        failed: set[PartitionRecovery] = set()

        def sync(todo: tuple[PartitionRecovery, Callable[[str], None], str]) -> None:
            work, action, path = todo
            if work not in failed:
                try:
                    action(path)
                except StratalogError as error:
                    failed.add(work)
                    self._fail(work, error)

        disk = self._disk
        files = [
            (work, disk.sync, join_path(plan.directory, name))
            for work, plan in plans
            for name in plan.accepted
        ]
        disk.together(sync, files + [(work, disk.sync_directory, plan.directory) for work, plan in plans])
        return failed

    def _rounds(self, work: PartitionRecovery) -> Generator[Files, None, RecoveryPlan]:
        """Plan a partition and apply the plan; yields the files that must be written before it goes on."""
        plan = plan_scanned(self._disk, work.survey, work.take_results())
        # A clean shutdown leaves not even a torn tail.
        is_cut = bool(plan.cuts) and (work.directory.state.note.was_clean or not plan.is_only_torn_tail)
        if is_cut or plan.misses_records:
            work.directory.note_cut()
        if plan.cuts:
            work.directory.note_recovery(self._quarantines_of(work.directory))
        if not self._dry_run:
            return (yield from self._apply(work, plan))
        place = self._find_room(work.directory, plan)
        if work.directory.room is not None:
            keeps_here = place is not None and self._is_here(plan, place)
            entries = self._disk.list_directory(plan.directory) if plan.steps else []
            occupied = {found.name: found.disk_size for found in entries}
            work.directory.room.take(plan.steps, occupied, keeps_here=keeps_here)
        if place is not None:
            names = names_in_quarantine(self._disk, plan.directory, plan.steps, place)
            plan = self._with_places(with_names(plan, names), [place], work.directory.path)
        if self._on_plan is not None:
            self._on_plan(plan)
        return plan

    def _find_room(self, directory: DirectoryRecovery, plan: RecoveryPlan) -> Quarantine | None:
        """The quarantine in which a run would keep what this plan cuts off; QuarantineFullError if none has
        room. None if nothing is to be kept.

        On the device of the log directory, each cut frees the room again right after its copy is made; on
        another device, the copies add up.
        """
        places = self._quarantines_of(directory)
        for number, place in enumerate(places, 1):
            ranges = ranges_to_keep(self._disk, plan.directory, plan.steps, place)
            if ranges is None:
                return None
            is_elsewhere = not self._is_here(plan, place)
            before = self._planned.setdefault(place.directory, []) if is_elsewhere else []
            try:
                place.require_writable()
                place.require_room([*before, *ranges])
            except QuarantineFullError:
                if number == len(places):
                    raise
            else:
                before += ranges
                return place
        return None

    def _is_here(self, plan: RecoveryPlan, place: Quarantine) -> bool:
        return self._disk.is_same_device(plan.directory, place.directory)

    def _apply(self, work: PartitionRecovery, plan: RecoveryPlan) -> Generator[Files, None, RecoveryPlan]:
        """Apply the plan; returns it with the places where cuts are kept."""
        directory, work.to_apply = work.directory, plan
        quarantines = [*self._quarantines_of(directory)] if plan.cuts else []
        full: list[Quarantine] = []
        while True:
            quarantine = quarantines.pop(0) if quarantines else None
            try:
                done = yield from apply_in_rounds(
                    self._disk,
                    plan,
                    quarantine,
                    full=full,
                    before_change=directory.locks.check,
                    applied=work.applied,
                )
                break
            except QuarantineFullError:
                if quarantine is None or not quarantines:
                    raise
                full.append(quarantine)
        if quarantine is None:
            return done
        return self._with_places(done, [quarantine, *full], directory.path)

    def _with_places(self, plan: RecoveryPlan, places: Sequence[Quarantine], directory: str) -> RecoveryPlan:
        return replace(plan, cuts=tuple(self._with_place(cut, places, directory) for cut in plan.cuts))

    def _with_place(self, cut: Cut, places: Sequence[Quarantine], directory: str) -> Cut:
        """The cut with the place where it is kept: a name if in the log directory, otherwise a path."""
        if cut.kept_as is None:
            return cut
        found = []
        for name in cut.kept_as.split(", "):
            place = next((place for place in places if self._has(place, name)), places[0])
            found.append(name if not name or place.directory == directory else place.path(name))
        return replace(cut, kept_as=", ".join(filter(None, found)) or _ZEROS)

    def _has(self, place: Quarantine, name: str) -> bool:
        """Whether this name is kept here; False if the disk cannot say, so that the report goes on."""
        try:
            return self._disk.exists(place.path(name))
        except DiskError:
            return False


def _report(work: PartitionRecovery, plan: RecoveryPlan) -> PartitionReport:
    segments = work.survey.inventory.segments
    return PartitionReport(
        name=work.entry.name,
        topic_partition=work.entry.topic_partition,
        first_base_offset=segments[0].base_offset if segments else plan.log_start_offset,
        log_start_offset=plan.log_start_offset,
        log_end_offset=plan.log_end_offset,
        segments_count=plan.segments_count,
        scanned_bytes=plan.scanned_bytes,
        is_changed=plan.changes_anything,
        is_only_torn_tail=plan.is_only_torn_tail,
        cuts=plan.cuts,
        findings=plan.findings,
    )
