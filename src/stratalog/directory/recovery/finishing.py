"""Plans and applies each partition as soon as its scans are done, in a thread next to the readers.

So readers go on while the device syncs. Only a few scanned partitions wait in memory to be finished: if there
are too many, the thread that collects the scans waits, and so do the readers.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from stratalog.directory.layout import PartitionEntry
from stratalog.directory.recovery.directory_recovery import DirectoryRecovery
from stratalog.directory.recovery.result import PartitionReport
from stratalog.errors import QuarantineFullError, StratalogError
from stratalog.files.disk import Disk
from stratalog.log.recovery.facts import Cut
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.quarantine import FileRange, Quarantine
from stratalog.log.recovery.run import apply_plan, plan_scanned, sync_accepted, with_names
from stratalog.log.recovery.steps import names_in_quarantine, ranges_to_keep
from stratalog.log.recovery.survey import Survey
from stratalog.log.recovery.task import ScanResult, ScanTask

_WAITING = 4  # partitions
_TICK_S = 0.05
_ZEROS = "(only zeros, counted in the manifest)"

# Where to keep what is cut off, in the order in which they are tried; if empty, nothing is kept.
QuarantinesOf = Callable[[DirectoryRecovery], Sequence[Quarantine]]


class PartitionRecovery:
    """One partition during recovery: its survey, and the scans done so far."""

    def __init__(self, directory: DirectoryRecovery, entry: PartitionEntry, survey: Survey) -> None:
        self.directory = directory
        self.entry = entry
        self.survey = survey
        self.segments_remaining = len(survey.scans)
        self.is_finished = False
        self._results: dict[str, ScanResult] = {}
        self._lock = threading.Lock()

    def add(self, task: ScanTask, result: ScanResult) -> bool:
        """Add a scan; True for the last one."""
        with self._lock:
            self._results[task.name] = result
            self.segments_remaining -= 1
            return self.segments_remaining == 0

    def take_results(self) -> Mapping[str, ScanResult]:
        """All scans; the memory here is released."""
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
        self._planned: dict[str, list[FileRange]] = {}  # for a dry run: what would be kept, by its place
        self._waiting: queue.Queue[PartitionRecovery | None] = queue.Queue(_WAITING)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="stratalog-finish")

    def put(self, work: PartitionRecovery, on_wait: Callable[[], object] = lambda: None) -> None:
        """Hand over a partition whose scans are done; while too many wait, this waits and calls `on_wait`."""
        while True:
            try:
                self._waiting.put(work, timeout=_TICK_S)
                break
            except queue.Full:
                on_wait()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # An interrupt or a bug: partitions that were not begun are dropped.
            self._failure = self._failure or error
        self._waiting.put(None)
        self._thread.join()
        if error is None and self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while (work := self._waiting.get()) is not None:
            if self._failure is not None or work.directory.error is not None:
                continue
            try:
                self._finish(work)
            except StratalogError as error:
                work.directory.fail(error)
            except BaseException as error:  # raised again in the caller's thread
                self._failure = error

    def _finish(self, work: PartitionRecovery) -> None:
        plan = plan_scanned(self._disk, work.survey, work.take_results())
        # In a directory that was shut down cleanly, not even a torn tail is expected.
        if plan.cuts and (work.directory.state.note.was_clean or not plan.is_only_torn_tail):
            work.directory.note_cut()
        if not self._dry_run:
            plan = self._apply(work, plan)
        else:
            place = self._find_room(work.directory, plan)
            if work.directory.room is not None:
                keeps_here = place is not None and self._is_here(plan, place)
                work.directory.room.take(plan.steps, keeps_here=keeps_here)
            if place is not None:
                names = names_in_quarantine(self._disk, plan.directory, plan.steps, place)
                plan = self._with_places(with_names(plan, names), [place], work.directory.path)
            if self._on_plan is not None:
                self._on_plan(plan)
        work.directory.partitions[work.entry.name] = _report(work, plan)
        work.is_finished = True

    def _find_room(self, directory: DirectoryRecovery, plan: RecoveryPlan) -> Quarantine | None:
        """The quarantine in which a run would keep what this plan cuts off; QuarantineFullError if none has
        room. None if there is nothing to keep.

        On the device of the log directory the cut frees the room again right after the copy; on another
        device the copies add up.
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

    def _apply(self, work: PartitionRecovery, plan: RecoveryPlan) -> RecoveryPlan:
        """Apply the plan; returns it with the places where cuts are kept."""
        directory = work.directory
        quarantines = [*self._quarantines_of(directory)] if plan.cuts else []
        full: list[Quarantine] = []
        while True:
            quarantine = quarantines.pop(0) if quarantines else None
            try:
                done = apply_plan(
                    self._disk, plan, quarantine, full=full, before_change=directory.locks.check
                )
                break
            except QuarantineFullError:
                if quarantine is None or not quarantines:
                    raise
                full.append(quarantine)
        sync_accepted(self._disk, done)
        if quarantine is None:
            return done
        return self._with_places(done, [quarantine, *full], directory.path)

    def _with_places(self, plan: RecoveryPlan, places: Sequence[Quarantine], directory: str) -> RecoveryPlan:
        return replace(plan, cuts=tuple(self._with_place(cut, places, directory) for cut in plan.cuts))

    def _with_place(self, cut: Cut, places: Sequence[Quarantine], directory: str) -> Cut:
        """A cut with the place where it is kept: a name in the log directory, a path elsewhere."""
        if cut.kept_as is None:
            return cut
        found = []
        for name in cut.kept_as.split(", "):
            place = next((place for place in places if self._disk.exists(place.path(name))), places[0])
            found.append(name if not name or place.directory == directory else place.path(name))
        return replace(cut, kept_as=", ".join(filter(None, found)) or _ZEROS)


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
