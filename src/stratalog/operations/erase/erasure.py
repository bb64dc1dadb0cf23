"""Erases records from the log directories of a node that is not running, wherever they are kept there.

Looked at, in each directory: the segments of the partition, the active one included, and of a copy that is on
its way to another disk; its directories that wait for removal or were set aside as stray; files that wait for
their deletion; and what recovery has put into quarantine. Everything is looked through before the first
change. Then, as with `maintaining.py`, the clean-shutdown file goes, the files are changed, and it comes
back with the epoch it had. A run that finds nothing to erase changes nothing; one that is killed leaves a
directory without that file: once it is recovered, the next run finishes the erasing.

Erasing asks for no setting of the topic but whether it is tiered: what was copied elsewhere is out of reach.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain

from stratalog.clock import Clock, system_clock
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.locking import Locks, MakeLock
from stratalog.directory.session import Unclean, unique_paths
from stratalog.engine.engine import results_in_order
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import PolicyViolationError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.paths import last_name
from stratalog.files.planned import PlannedDisk
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.erase_selection import Matcher, Selection
from stratalog.operations.erase.erase_directory import ENDED_FIRST, DirectoryEraser, Looked
from stratalog.operations.erase.erase_report import ErasureReport
from stratalog.operations.opening import Opened, Opening
from stratalog.operations.read_progress import ReadProgress, nobody
from stratalog.records.internal_topics import CLUSTER_METADATA

EVERY_REPLICA = (
    "Each replica keeps these records in files of its own: erase them there too, or a replica that takes "
    "over serves them again. Backups, mirrored clusters and consumers have copies that are out of reach here."
)
CUT_FIRST = (
    "What recovery would cut off goes to quarantine, and is looked through there. How many of its records "
    "would be erased is not known before."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What is to be erased, from which topics or partitions, in which directories of one node.

    `quarantines` are directories outside of those in which a recovery was told to keep what it cut off.
    """

    directories: Sequence[str]
    names: Sequence[str]
    selection: Selection
    quarantines: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    dry_run: bool = False
    unclean: Unclean = Unclean.REFUSE
    disk: Disk = field(default_factory=lambda: Disk(require_owner=True))
    clock: Clock = system_clock
    make_lock: MakeLock = DirectoryLock

    def run(self, on_progress: OnProgress = nobody) -> ErasureReport:
        """Erase, or only say what would be; refusals are those of `Opening.opened`.

        `on_progress` is told of a recovery before it, and of the partition that is read: to find what is to
        go, and to write files without it.
        """
        if any(name.partition("-")[0] == CLUSTER_METADATA for name in self.names):
            raise PolicyViolationError(
                f"{CLUSTER_METADATA}: the metadata of the cluster is not erased from; its controllers "
                "count on every record of it."
            )
        now = self.clock()
        fixed = replace(self, clock=lambda: now)
        opening = Opening(
            directories=self.directories,
            sources=self.sources,
            unclean=self.unclean,
            disk=self.disk,
            clock=fixed.clock,
            make_lock=self.make_lock,
            on_progress=on_progress,
        )
        with opening.opened(dry_run=self.dry_run) as opened, ExitStack() as held:
            if opened.is_failed:
                return ErasureReport(directories=(), recovery=opened.recovery, is_plan=self.dry_run)
            for place in () if self.dry_run else self._places(opened.paths):
                locks = Locks(place, self.make_lock)
                held.callback(locks.release)
                locks.take()
            ended: list[str] = []
            if self.dry_run:
                opened = fixed._with_replacements_ended(opened, held, ended)
            report = fixed._in_all(opened, on_progress)
            report = replace(report, notes=(*ended, *report.notes))
            return replace(report, refusals=opening.refusals(opened))

    def _in_all(self, opened: Opened, on_progress: OnProgress) -> ErasureReport:
        paths, session = opened.paths, opened.session
        looking = self._erasers(opened)
        for name in self.names:
            topics = {topic for each in looking for topic in each.topics_of(name)}
            if not topics:
                raise UsageError(f"{name}: there is no such topic or partition in {', '.join(paths)}.")
            _check_name(name, topics)
        if self.selection.ranges and (
            len(self.names) > 1 or not all(each.are_partitions for each in looking)
        ):
            raise UsageError("offsets belong to one partition: name it, as in --topic orders-0.")
        for each, directory in zip(looking, opened.directories, strict=session is not None):
            each.finish_replacements(directory)
        self._look(looking, opened.disk, on_progress)
        if session is None:
            reports = [each.plan() for each in looking]
        else:
            sizes = dict(chain.from_iterable(each.sizes_to_erase() for each in looking))
            progress = ReadProgress(on_progress, sizes, stage="erasing from")
            reports = [
                each.erase(session, directory, progress)
                for each, directory in zip(looking, opened.directories, strict=True)
            ]
        notes = [note for each in looking for note in each.notes]
        if others := self._not_named(paths):
            notes.append(f"Not looked through, though the broker's log.dirs have it: {', '.join(others)}.")
        if any(partition.files for report in reports for partition in report.partitions):
            notes.append(EVERY_REPLICA)
        if self.dry_run and opened.recovery is not None and opened.recovery.cuts:
            notes.append(CUT_FIRST)
        return ErasureReport(
            directories=tuple(reports),
            notes=tuple(dict.fromkeys(notes)),
            recovery=opened.recovery,
            is_plan=self.dry_run,
        )

    def _erasers(self, opened: Opened) -> list[DirectoryEraser]:
        paths = opened.paths
        known = KnownTopics(opened.disk, paths, self.sources)
        places = self._places(paths)  # looked through with the first directory, whose audit tells of them
        return [
            DirectoryEraser(
                path,
                [path, *(places if path == paths[0] else [])],
                names=self.names,
                selection=self.selection,
                known=known,
                disk=opened.disk,
                clock=self.clock,
                rewritten=opened.rewritten,
            )
            for path in paths
        ]

    def _with_replacements_ended(self, opened: Opened, held: ExitStack, notes: list[str]) -> Opened:
        """What a dry run looks at: a run first ends the replacements of segments that were cut short."""
        plans = [plan for each in self._erasers(opened) for plan in each.plan_replacements()]
        if not plans:
            return opened
        from stratalog.directory.recovery.rehearsal import RecoveryRehearsal, rehearsing_recovery

        if isinstance(opened.disk, PlannedDisk):
            rehearsal = RecoveryRehearsal(opened.disk)
        else:
            rehearsal = held.enter_context(rehearsing_recovery())
        for plan in plans:
            rehearsal.add(plan)
            notes.append(ENDED_FIRST.format(last_name(plan.directory)))
        return replace(opened, disk=rehearsal.disk, rewritten={**opened.rewritten, **rehearsal.rewritten})

    def _look(self, looking: Sequence[DirectoryEraser], disk: DiskReader, on_progress: OnProgress) -> None:
        """Look through every partition, with as many readers for each device as it can use."""
        sizes = dict(chain.from_iterable(each.sizes() for each in looking))
        progress = ReadProgress(on_progress, sizes, stage="looking through")
        tasks = [(each, name) for each in looking for name in each.names]
        reused = threading.local()  # a matcher has memory of its own, to read into

        def look(disk: DiskReader, task: tuple[DirectoryEraser, str]) -> Looked:
            if not hasattr(reused, "matcher"):
                reused.matcher = Matcher(self.selection)
            each, name = task
            with progress.part(each.path_of(name), name) as reused.matcher.on_read:
                return each.look(disk, name, reused.matcher)

        outcomes = ThreadEngine(disk=disk).run(
            look,
            tasks,
            sizes=[sizes[each.path_of(name)] for each, name in tasks],
            paths=[each.path for each, _ in tasks],
            on_progress=progress.tell,
        )
        for (each, _), looked in zip(tasks, results_in_order(outcomes), strict=True):
            each.take(looked)

    def _not_named(self, paths: Sequence[str]) -> list[str]:
        """Other directories of the broker: one may have a copy of a partition, on its way or set aside."""
        named = {os.path.realpath(path) for path in paths}
        every = () if self.sources.server is None else self.sources.server.manager.log_dirs
        return [path for path in every if os.path.realpath(path) not in named and self.disk.exists(path)]

    def _places(self, paths: Sequence[str]) -> list[str]:
        """The directories that only keep what was cut off."""
        found = unique_paths(self.quarantines) if self.quarantines else []
        return [place for place in found if place not in paths]


def _check_name(name: str, topics: Collection[str]) -> None:
    """UsageError for a name that two things have: the other one may hold records that are to stay."""
    if name in topics and len(topics) > 1:
        topic, _, number = name.rpartition("-")
        raise UsageError(
            f"{name} is a topic here, and partition {number} of {topic} too. Name the topic's "
            f"partitions one by one, as in {name}-0, or all of {topic}."
        )
