"""What recovery has put into quarantine: listed, looked into, written to a file, or deleted.

Each range or file that was kept has an id, made from its line in the manifest. The id stays the same as long
as the range is kept. Listing and showing only read. Restoring writes a new file outside of the log
directories, bit for bit; the bytes also stay in quarantine. Purging deletes them permanently, in a session
(`directory/session.py`): the directories must not be in use, and must have been shut down cleanly. The logs
themselves are not touched, so the clean-shutdown files stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from stratalog.clock import Clock, system_clock
from stratalog.directory.kind import check_log_directory, check_place
from stratalog.directory.locking import Locks, MakeLock
from stratalog.directory.session import Session, Unclean, check_session, unique_paths
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import FileKind, check_one_meaning, parse_segment_file
from stratalog.files.paths import absolute_path, join_path, last_name, parent_path
from stratalog.limits import INT64_MAX
from stratalog.log.api.outline import codec_name
from stratalog.log.cleaning.erase_quarantine import KeptBytes
from stratalog.log.recovery.manifest import ManifestEntry, format_line
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.operations.quarantine_report import Handled, KeptBatch, KeptRange, QuarantineReport, ShownRange
from stratalog.records.reader import BatchRow
from stratalog.segment.headers import walk_file
from stratalog.segment.resuming import search_batch

_ID_SIZE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineRequest:
    """The log directories of one node, and other directories that a recovery with --quarantine has used.

    `names` are partitions or topics; none: all.
    """

    directories: Sequence[str]
    places: Sequence[str] = ()
    names: Sequence[str] = ()
    disk: Disk = field(default_factory=Disk)
    clock: Clock = system_clock
    make_lock: MakeLock = DirectoryLock

    def listed(self) -> QuarantineReport:
        """Everything that is kept, the oldest first in each directory. Changes nothing."""
        return QuarantineReport(ranges=tuple(found for found, _ in self._found()), outcome=Handled.KEPT)

    def show(self, wanted: str, *, top: int = 0) -> ShownRange:
        """The batches in one range; at most `top`, 0 for all. UsageError if not exactly one id fits."""
        ((found, quarantine),) = self._chosen([wanted])
        file = parse_segment_file(found.entry.file)
        if file is None or file.kind is not FileKind.LOG:
            return ShownRange(kept=found)
        batches, count, hidden_size = [], 0, 0
        for batch in _batches(KeptBytes(self.disk, quarantine, found.entry)):
            if isinstance(batch, int):
                hidden_size += batch
                continue
            count += 1
            if not top or count <= top:
                batches.append(batch)
        return ShownRange(
            kept=found, batches=tuple(batches), batches_count=count, hidden_size=hidden_size, is_log=True
        )

    def restore(self, wanted: str, target: str, *, dry_run: bool = False) -> QuarantineReport:
        """Write the bytes to a new file. UsageError if it exists, or would be in a log directory.

        If the target is a folder, the new file gets the name of the file that the range came from.

        QuarantineError, and no file, if the bytes have changed since they were kept."""
        ((found, quarantine),) = self._chosen([wanted])
        path = absolute_path(target)
        status = self.disk.status(path)
        if (status is not None and status.kind is EntryKind.DIRECTORY) or target.endswith("/"):
            path = join_path(path, found.entry.file)
        place = parent_path(path)
        if self.disk.exists(path) or self._is_dangling(path):
            raise UsageError(f"--to {target}: {path} exists already. Name a new file.")
        folder = self.disk.status(place)
        if folder is None or folder.kind is not EntryKind.DIRECTORY:
            what = "does not exist" if folder is None else "is not a folder"
            raise UsageError(f"--to {target}: {place} {what}.")
        check_place(self.disk, place, self.directories, option="--to")
        logs = map(self.disk.status, unique_paths(self.disk, self.directories))
        if folder.id in {each.id for each in logs if each is not None}:
            raise UsageError(f"--to {target}: this is in a log directory. Name a file elsewhere.")
        if not dry_run:
            quarantine.restore(found.entry, path)
        return QuarantineReport(ranges=(found,), outcome=Handled.RESTORED, is_plan=dry_run, target=path)

    def _is_dangling(self, path: str) -> bool:
        """Whether a link that leads nowhere has this name: it is in the way, but does not count as a file."""
        with suppress(DiskError):  # a folder that is missing, or that this user may not list
            return any(entry.name == last_name(path) for entry in self.disk.list_directory(parent_path(path)))
        return False

    def purge(
        self, wanted: Sequence[str] = (), *, before_ms: int | None = None, dry_run: bool = False
    ) -> QuarantineReport:
        """Delete the ranges with these ids (none: all), or those of them that were kept before a time.

        LogDirLockedError if a directory is in use, NeedsRecoveryError if one was not shut down cleanly."""
        if dry_run:
            check_session(self.disk, self.directories, unclean=Unclean.REFUSE, or_else="")
            chosen = self._to_purge(wanted, before_ms)
        else:
            with ExitStack() as held:
                session = Session(
                    self.directories,
                    unclean=Unclean.REFUSE,
                    or_else="",
                    disk=self.disk,
                    clock=self.clock,
                    make_lock=self.make_lock,
                )
                held.enter_context(session)
                for place in self._places():
                    locks = Locks(place, self.make_lock)
                    held.callback(locks.release)
                    locks.take()
                chosen = self._to_purge(wanted, before_ms)
                for directory in session.directories:
                    if any(found.place == directory.path for found, _ in chosen):
                        directory.before_adding()
                for found, quarantine in chosen:
                    quarantine.replace(found.entry, None, reason=f"{found.entry.reason}; purged later")
        ranges = tuple(found for found, _ in chosen)
        return QuarantineReport(ranges=ranges, outcome=Handled.PURGED, is_plan=dry_run)

    def _to_purge(self, wanted: Sequence[str], before_ms: int | None) -> list[tuple[KeptRange, Quarantine]]:
        chosen = self._chosen(wanted) if wanted else [*self._found()]
        if before_ms is None:
            return chosen
        return [(found, place) for found, place in chosen if found.entry.time_ms < before_ms]

    def _chosen(self, wanted: Sequence[str]) -> list[tuple[KeptRange, Quarantine]]:
        every = [*self._found()]
        chosen = []
        for name in wanted:
            hits = [each for each in every if each[0].id.startswith(name)]
            if len(hits) != 1:
                what = "more than one" if hits else "nothing"
                raise UsageError(
                    f"{name}: {what} in quarantine has this id. `stratalog quarantine list` prints the ids."
                )
            chosen += hits
        return chosen

    def _found(self) -> Iterator[tuple[KeptRange, Quarantine]]:
        paths = unique_paths(self.disk, self.directories)
        for path in paths:
            check_log_directory(self.disk, path)
        found = [
            (place, quarantine, quarantine.entries())
            for place in [*paths, *self._places()]
            for quarantine in [Quarantine(self.disk, place, clock=self.clock)]
        ]
        # A purged or erased range has a line that says so, and no bytes.
        kept = {entry.partition for _, _, entries in found for entry in entries if entry.size}
        for name in self.names:
            check_one_meaning(name, {_topic(each) for each in kept if name in (each, _topic(each))})
        for place, quarantine, entries in found:
            for entry in entries:
                if entry.size and self._is_meant(entry):
                    yield KeptRange(id=id_of(entry), place=place, entry=entry), quarantine

    def _places(self) -> list[str]:
        own = set(unique_paths(self.disk, self.directories))
        return [place for place in map(absolute_path, self.places) if place not in own]

    def _is_meant(self, entry: ManifestEntry) -> bool:
        return not self.names or not {entry.partition, _topic(entry.partition)}.isdisjoint(self.names)


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def id_of(entry: ManifestEntry) -> str:
    """The id of a kept range: a hash of its line."""
    return hashlib.sha256(format_line(entry)).hexdigest()[:_ID_SIZE]


def _batches(file: KeptBytes) -> Iterator[KeptBatch | int]:
    """The whole batches, whatever their checksums, and between them the number of other bytes."""
    position, end = 0, file.size
    while position < end:
        for part in walk_file(file.read_into, position, end):
            for row in part.walk.headers:
                facts = BatchRow._make(row.item())
                yield _batch(facts._replace(position=part.position + facts.position))
            stopped = part.position + part.walk.next_position
        if stopped >= end:
            return
        found = search_batch(file.read_into, stopped + 1, end, above=-1, below=INT64_MAX)
        position = end if found is None else found
        yield position - stopped


def _batch(facts: BatchRow) -> KeptBatch:
    return KeptBatch(
        position=facts.position,
        size=facts.size,
        base_offset=facts.base_offset,
        last_offset=facts.last_offset,
        records_count=facts.records_count,
        codec=codec_name(facts),
        max_timestamp=facts.max_timestamp,
        is_valid=bool(facts.valid),
    )
