"""`index`: rebuilds missing and wrong indexes in the logs of a stopped broker.

Each segment is read, and its indexes are compared with its batches, entry by entry, as in an audit
(`audit/segment_task.py`). Only an index that contradicts its log is written again, from the log; a correct
index stays unchanged, although a rebuilt one could have other entries. The logs themselves are not changed.
If an index is wrong in a partition with damage in a log, the partition is refused, because its indexes depend
on what recovery leaves of the log.

After the change, each rebuilt index is compared with its log again, before the clean-shutdown file is
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stratalog.config import LogConfig
from stratalog.directory.known_topics import KnownTopics
from stratalog.directory.layout import PartitionEntry, classify
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.repairing import is_unfinished
from stratalog.directory.session import Session
from stratalog.engine.progress import OnProgress
from stratalog.errors import CorruptIndexError, NeedsRecoveryError, StratalogError
from stratalog.files.names import FileKind, segment_file_name
from stratalog.files.paths import command_text, join_path
from stratalog.files.reading import DiskReader
from stratalog.log.api.listing import list_log, offsets_of
from stratalog.log.recovery.stitch import ProducerStitch, SnapshotSet
from stratalog.log.recovery.task import ScanTask, run_scan
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.partition import compare_aborts
from stratalog.operations.audit.segment_task import AuditedSegment, AuditTask, audit_segment
from stratalog.operations.audit.spots import Spot
from stratalog.operations.index_report import IndexedDirectory, IndexedPartition, IndexReport, RebuiltIndex
from stratalog.operations.named import is_named
from stratalog.operations.opening import Opened
from stratalog.operations.read_progress import ReadProgress, logs_size, nobody
from stratalog.operations.request import NodeRequest
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.scan import ScanStop
from stratalog.segment.time_index import TimeIndex
from stratalog.segment.txn_index import AbortedTxn

_KINDS = {
    AuditKind.MISSING_INDEX: FileKind.OFFSET_INDEX,
    AuditKind.UNREADABLE_INDEX: FileKind.OFFSET_INDEX,
    AuditKind.INDEX_ENTRY: FileKind.OFFSET_INDEX,
    AuditKind.INDEX_PAST_END: FileKind.OFFSET_INDEX,
    AuditKind.MISSING_TIME_INDEX: FileKind.TIME_INDEX,
    AuditKind.UNREADABLE_TIME_INDEX: FileKind.TIME_INDEX,
    AuditKind.TIME_INDEX_ENTRY: FileKind.TIME_INDEX,
    AuditKind.TIME_INDEX_END: FileKind.TIME_INDEX,
    AuditKind.TIME_INDEX_PAST_END: FileKind.TIME_INDEX,
    AuditKind.UNREADABLE_TXN_INDEX: FileKind.TXN_INDEX,
    AuditKind.TORN_TXN_INDEX: FileKind.TXN_INDEX,
    AuditKind.TXN_INDEX_ENTRY: FileKind.TXN_INDEX,
    AuditKind.MISSING_ABORT: FileKind.TXN_INDEX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexing(NodeRequest):
    """A request to rebuild indexes."""

    def run(self, on_progress: OnProgress = nobody) -> IndexReport:
        """Rebuild, or report what would be rebuilt. Refuses what `Opening.opened` refuses."""
        opening = self.opening(on_progress)
        with opening.opened(dry_run=self.dry_run) as opened:
            if opened.is_failed:
                return IndexReport(directories=(), recovery=opened.recovery, is_plan=self.dry_run)
            known = opening.known_topics(opened)
            planned = self._plan(opened, known, on_progress)
            if opened.session is not None:
                planned = [
                    self._write(opened.session, directory, plan, known)
                    for directory, plan in zip(opened.directories, planned, strict=True)
                ]
            return IndexReport(
                directories=tuple(planned),
                notes=(*opened.notes, *known.notes),
                recovery=opened.recovery,
                refusals=opening.refusals(opened),
                is_brokers=opening.are_brokers(opened),
                is_plan=self.dry_run,
            )

    def _plan(self, opened: Opened, known: KnownTopics, on_progress: OnProgress) -> list[IndexedDirectory]:
        disk, found = opened.disk, {}
        errors: dict[str, str] = {}
        for path in opened.paths:
            try:
                found[path] = [
                    entry
                    for entry in classify(disk, path).partitions
                    if not self.names or is_named(entry, self.names)
                ]
            except StratalogError as error:
                found[path], errors[path] = [], str(error)
        sizes = {
            join_path(path, entry.name): logs_size(disk, join_path(path, entry.name))
            for path, entries in found.items()
            for entry in entries
        }
        progress = ReadProgress(on_progress, sizes, stage="reading")
        return [
            IndexedDirectory(
                directory=path,
                partitions=tuple(self._planned(disk, path, entry, known, progress) for entry in entries),
                error=errors.get(path),
                is_begun=path not in errors,
            )
            for path, entries in found.items()
        ]

    def _planned(
        self, disk: DiskReader, path: str, entry: PartitionEntry, known: KnownTopics, progress: ReadProgress
    ) -> IndexedPartition:
        config = known.of(entry.topic_partition.topic)
        folder = join_path(path, entry.name)
        try:
            if is_unfinished(disk, path, entry.name):
                raise NeedsRecoveryError(
                    folder,
                    "a replacement of segments was interrupted in it",
                    f"Run {command_text('recover', '--all', path)} first, which finishes it.",
                )
            with progress.part(folder, entry.name) as on_read:
                segments = []
                for task in _tasks(disk, folder, entry, self.clock()):
                    segments.append(_compared(disk, task))
                    on_read(task.size)
            rebuilt = tuple(_rebuilt(disk, path, folder, config, segments))
        except NeedsRecoveryError as error:
            return IndexedPartition(name=entry.name, error=str(error), needs_recovery=True)
        except StratalogError as error:
            return IndexedPartition(name=entry.name, error=str(error))
        return IndexedPartition(name=entry.name, segments_count=len(segments), rebuilt=rebuilt)

    def _write(
        self, session: Session, directory: LogDirectory, plan: IndexedDirectory, known: KnownTopics
    ) -> IndexedDirectory:
        if not any(partition.rebuilt for partition in plan.partitions):
            return plan
        entries = {entry.name: entry for entry in directory.layout.partitions}
        try:
            directory.before_change()
            for partition in plan.partitions:
                if partition.rebuilt:
                    folder = join_path(plan.directory, partition.name)
                    for index in partition.rebuilt:
                        self.disk.replace(join_path(folder, index.file), index.data)
                    self.disk.sync_directory(folder)
                    self._prove(folder, entries[partition.name], partition, known)
            session.put_back(directory)
        except StratalogError as error:
            return replace(plan, error=str(error))
        return plan

    def _prove(
        self, folder: str, entry: PartitionEntry, partition: IndexedPartition, known: KnownTopics
    ) -> None:
        """CorruptIndexError if an index that was rebuilt still contradicts its log."""
        self.disk.release(folder)
        segments = [_compared(self.disk, task) for task in _tasks(self.disk, folder, entry, self.clock())]
        config = known.of(entry.topic_partition.topic)
        for name, spots in _wrong(segments, is_compacted=config.compact)[0].items():
            if name in {index.file for index in partition.rebuilt}:
                raise CorruptIndexError(join_path(folder, name), f"it was rebuilt, but: {spots[0].words}")


def _tasks(disk: DiskReader, folder: str, entry: PartitionEntry, now_ms: int) -> Iterator[AuditTask]:
    files = list_log(disk, folder)
    bases = offsets_of(files, FileKind.LOG)
    sizes = {file.offset: found.size for file, found in files.items() if file.kind is FileKind.LOG}
    for number, base in enumerate(bases):
        yield AuditTask(
            directory=folder,
            topic=entry.topic_partition.topic,
            base_offset=base,
            size=sizes[base],
            next_base=bases[number + 1] if number + 1 < len(bases) else None,
            was_closed=True,
            now_ms=now_ms,
        )


def _compared(disk: DiskReader, task: AuditTask) -> AuditedSegment:
    """The segment, with the faults of its indexes. Unlike in an audit, no index may end with zeros.

    After a clean shutdown, a broker would read these zeros as entries.
    """
    found = audit_segment(disk, task)
    return replace(found, spots=(*found.spots, *_padding(disk, task)))


def _padding(disk: DiskReader, task: AuditTask) -> Iterator[Spot]:
    for kind, index_type, audit_kind in (
        (FileKind.OFFSET_INDEX, OffsetIndex, AuditKind.UNREADABLE_INDEX),
        (FileKind.TIME_INDEX, TimeIndex, AuditKind.UNREADABLE_TIME_INDEX),
    ):
        name = segment_file_name(task.base_offset, kind)
        path = join_path(task.directory, name)
        status = disk.status(path)
        index = index_type(disk, path, task.base_offset, max_size=0)
        size = index.entry_count * index.entry_size
        index.forget()
        if status is not None and size < status.size and not status.size % index.entry_size:
            words = f"{status.size - size} bytes of zeros follow its {size // index.entry_size} entries."
            yield Spot(audit_kind, name, words)


def _wrong(
    segments: Sequence[AuditedSegment], *, is_compacted: bool
) -> tuple[dict[str, list[Spot]], dict[str, tuple[AbortedTxn, ...]]]:
    """What is wrong with each index, by its name; and the transactions that each .txnindex must have."""
    state = ProducerStitch(SnapshotSet((), lambda _: None), now_ms=0, producer_id_expiration_ms=1)
    was_cleaned = is_compacted or any(segment.is_compacted for segment in segments)
    wrong: dict[str, list[Spot]] = {}
    aborted: dict[str, tuple[AbortedTxn, ...]] = {}
    for segment in segments:
        expected = state.add(segment.scan)
        name = segment_file_name(segment.base_offset, FileKind.TXN_INDEX)
        aborted[name] = _merged(segment.aborted if was_cleaned else (), expected)
        spots = [spot for spot in segment.spots if spot.kind in _KINDS]
        if segment.aborted is not None:
            spots += compare_aborts(segment, expected, was_cleaned)
        for spot in spots:
            wrong.setdefault(segment_file_name(segment.base_offset, _KINDS[spot.kind]), []).append(spot)
    return wrong, aborted


def _merged(listed: Sequence[AbortedTxn] | None, expected: Sequence[AbortedTxn]) -> tuple[AbortedTxn, ...]:
    """The aborts in the log, and those in the index whose markers compaction has removed."""
    found = {(each.producer_id, each.last_offset): each for each in listed or ()}
    found.update({(each.producer_id, each.last_offset): each for each in expected})
    return tuple(sorted(found.values(), key=lambda each: each.last_offset))


def _rebuilt(
    disk: DiskReader, path: str, folder: str, config: LogConfig, segments: Sequence[AuditedSegment]
) -> Iterator[RebuiltIndex]:
    wrong, aborted = _wrong(segments, is_compacted=config.compact)
    if not wrong:
        return
    for segment in segments:
        if segment.has_damage:
            name = segment_file_name(segment.base_offset, FileKind.LOG)
            raise NeedsRecoveryError(
                join_path(folder, name),
                f"it is damaged from byte {segment.good_end} on, so its indexes cannot be rebuilt",
                f"Run {command_text('recover', '--all', path)} first.",
            )
    for segment in segments:
        contents = _contents(disk, folder, config, segment, wrong, aborted)
        for name, data in contents.items():
            status = disk.status(join_path(folder, name))
            yield RebuiltIndex(
                file=name,
                reasons=tuple(spot.words for spot in wrong[name]),
                data=data,
                size_before=None if status is None else status.size,
            )


def _contents(
    disk: DiskReader,
    folder: str,
    config: LogConfig,
    segment: AuditedSegment,
    wrong: Mapping[str, Sequence[Spot]],
    aborted: Mapping[str, Sequence[AbortedTxn]],
) -> dict[str, bytes]:
    """The right bytes of the wrong indexes of a segment."""
    base = segment.base_offset
    log, index, times, txn_index = (
        segment_file_name(base, kind)
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
    )
    found = {}
    if index in wrong or times in wrong:
        task = ScanTask(
            name=log,
            path=join_path(folder, log),
            base_offset=base,
            size=segment.size,
            index_interval_bytes=config.index_interval_bytes,
            max_index_size=config.segment_index_bytes,
        )
        result = run_scan(disk, task)
        if result.scan.stop is not ScanStop.END or result.pieces:
            raise NeedsRecoveryError(
                task.path, f"it cannot be indexed to its end: {result.scan.reason.rstrip('.')}"
            )
        for name, built in ((index, result.index), (times, result.time_index)):
            if name in wrong:
                assert built.data is not None, "no file was given to compare with"
                found[name] = built.data
    if txn_index in wrong:
        found[txn_index] = b"".join(each.to_bytes() for each in aborted[txn_index])
    return found
