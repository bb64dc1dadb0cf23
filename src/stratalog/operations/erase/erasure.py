"""Erases records from the log directories of a stopped node, wherever these directories keep them.

In each directory, these files of a partition are searched: its segments, including the active one; those of a
copy that a move has begun; directories marked -delete or -stray; files that wait for their
deletion; and bytes that recovery has put into quarantine. Everything is searched before the first change.
Then, as in `maintaining.py`, the clean-shutdown file is removed, the files are changed, and the
clean-shutdown file is written again with the epoch it had. A run that finds nothing to erase changes nothing,
except that it finishes interrupted replacements of segments and removes the folders of killed compactions. A
killed run leaves a directory without a clean-shutdown file: once the directory is recovered, the next run
finishes the erasing.

The only setting of the topic that matters is whether it is tiered: copies in remote storage cannot be erased.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain

from stratalog.clock import Clock, system_clock
from stratalog.directory.kind import check_place
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.locking import Locks, MakeLock
from stratalog.directory.session import Unclean, unique_paths
from stratalog.engine.engine import Engine, results_in_order
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import PolicyViolationError, StratalogError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import check_one_meaning
from stratalog.files.paths import last_name
from stratalog.files.planned import PlannedDisk
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.erase_selection import Found, Matcher, Selection
from stratalog.operations.erase.erase_directory import ENDED_FIRST, DirectoryEraser, Looked
from stratalog.operations.erase.erase_report import ErasureReport
from stratalog.operations.erase.erase_search import search_files
from stratalog.operations.opening import Opened, Opening
from stratalog.operations.read_progress import ReadProgress, nobody
from stratalog.records.internal_topics import CLUSTER_METADATA

EVERY_REPLICA = (
    "Each replica keeps these records in files of its own: erase them there too, or a replica that takes "
    "over serves them again. Backups, mirrored clusters and consumers have copies that are out of reach here."
)
CUT_FIRST = (
    "Recovery moves the bytes that it cuts off to quarantine, and they are searched there. The number of "
    "records to erase from them is not known before the recovery."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A request: which records to erase, from which topics or partitions, in which directories of one node.

    `quarantines` are other directories, in which a recovery with --quarantine has kept the bytes it cut off.
    `engine` searches the logs of the partitions, with a task for each file; by default threads of this
    process do. A dry run that plans a recovery first always searches in this process: only this process knows
    what the recovery would leave.
    """

    directories: Sequence[str]
    names: Sequence[str]
    selection: Selection
    quarantines: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    dry_run: bool = False
    unclean: Unclean = Unclean.REFUSE
    engine: Engine | None = None
    disk: Disk = field(default_factory=lambda: Disk(require_owner=True))
    clock: Clock = system_clock
    make_lock: MakeLock = DirectoryLock

    def run(self, on_progress: OnProgress = nobody) -> ErasureReport:
        """Erase, or report what would be erased. Refuses what `Opening.opened` refuses.

        `on_progress` is called during a recovery that comes first, and for each partition while it is
        searched and rewritten.
        """
        if any(name.partition("-")[0] == CLUSTER_METADATA for name in self.names):
            raise PolicyViolationError(
                f"{CLUSTER_METADATA}: records of the cluster's metadata are not erased; the controllers need "
                "every one of them."
            )
        for place in self.quarantines:
            check_place(self.disk, place, self.directories, option="--quarantine")
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
            return replace(report, refusals=opening.refusals(opened), is_brokers=opening.are_brokers(opened))

    def _in_all(self, opened: Opened, on_progress: OnProgress) -> ErasureReport:
        paths, session = opened.paths, opened.session
        looking = self._erasers(opened)
        for name in self.names:
            topics = {topic for each in looking for topic in each.topics_of(name)}
            if not topics:
                raise UsageError(f"{name}: there is no such topic or partition in {', '.join(paths)}.")
            check_one_meaning(name, topics)
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
        notes = [*opened.notes, *(note for each in looking for note in each.notes)]
        if others := self._not_named(paths):
            notes.append(
                "These directories of the broker's log.dirs were not named and not searched: "
                f"{', '.join(others)}."
            )
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
        # Other quarantines are searched with the first directory, whose stratalog-erased.jsonl lists them.
        places = self._places(paths)
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
        """What a dry run searches: interrupted replacements of segments count as finished, as after a run."""
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
        """Search every partition, with as many readers for each device as it can use."""
        sizes = dict(chain.from_iterable(each.sizes() for each in looking))
        progress = ReadProgress(on_progress, sizes, stage="looking through")
        tasks = [(each, name) for each in looking for name in each.names]
        reused = threading.local()  # a matcher has its own memory to read into
        known: Mapping[str, Found | StratalogError] = {}
        if self.engine is not None and not isinstance(disk, PlannedDisk):
            files = [path for each in looking for path in each.files()]
            known = search_files(
                self.engine,
                disk,
                files,
                self.selection,
                lambda found: on_progress(replace(found, stage="looking through")),
            )

        def look(disk: DiskReader, task: tuple[DirectoryEraser, str]) -> Looked:
            if not hasattr(reused, "matcher"):
                reused.matcher = Matcher(self.selection)
                reused.matcher.known = known
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
        """The other directories of the broker: one may have a future or stray copy of a partition."""
        named = {os.path.realpath(path) for path in paths}
        every = () if self.sources.server is None else self.sources.server.manager.log_dirs
        return [path for path in every if os.path.realpath(path) not in named and self.disk.exists(path)]

    def _places(self, paths: Sequence[str]) -> list[str]:
        """The directories that are only quarantines."""
        found = unique_paths(self.disk, self.quarantines) if self.quarantines else []
        return [place for place in found if place not in paths]


def erase(
    directories: Sequence[str | os.PathLike[str]],
    topics: Sequence[str],
    *,
    keys: Iterable[bytes] = (),
    offsets: Iterable[tuple[int, int]] = (),
    dry_run: bool = False,
    engine: Engine | None = None,
    on_progress: OnProgress = nobody,
) -> ErasureReport:
    """Permanently erase records from these topics or partitions, in the log directories of a stopped node.

    `keys` and `offsets` (the first and the last of a range) say which. `engine` searches the logs, with a
    task for each file; by default, threads do. This process makes all changes. Raises what `Erasure.run`
    raises.
    """
    erasure = Erasure(
        directories=[os.fspath(directory) for directory in directories],
        names=topics,
        selection=Selection.of(keys, offsets),
        dry_run=dry_run,
        engine=engine,
    )
    return erasure.run(on_progress)
