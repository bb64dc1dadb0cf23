"""`doctor`: says whether the broker may be started here. Lists every reason against it, and what to do.

It reads only names, sizes, small files and the ends of logs, so it takes seconds, however much data there is.
`audit` checks checksums. Nothing is locked or changed.

In addition to the reasons of `startup_refusals.py`, it reports directories that were never formatted, with
which a broker does not start. It also reports partitions that the broker would set aside, because its
cluster's metadata does not assign them to this node; partitions whose folder is gone; and logs that have lost
records since a clean shutdown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.cluster_metadata import METADATA_DIRECTORY
from stratalog.directory.gone_logs import GoneLog, read_emptied_logs, read_gone_logs
from stratalog.directory.kind import are_brokers, check_log_directory
from stratalog.directory.layout import check_named_once, classify, find_same
from stratalog.directory.lone_logs import was_shut_down
from stratalog.directory.node import Node, find_node
from stratalog.directory.refusal import RECOVER_ALL, RefusalKind, StartupRefusal, is_start_refused
from stratalog.directory.session import absolute_paths
from stratalog.directory.short_logs import short_logs_in
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.directory.topic_id_refusals import own_id_remedy
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.names import META_PROPERTIES, PARTITION_METADATA, FileKind, TopicPartition
from stratalog.files.paths import absolute_path, join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import PartitionMetadataFile
from stratalog.operations.report import (
    Report,
    Status,
    Table,
    refusal_document,
    refusals_table,
    why_not_started,
)
from stratalog.operations.words import counted, sentence, size_text

_NEW_CLUSTER = f"{METADATA_DIRECTORY} is missing, so that the broker begins a new cluster without topics"
_STRAY_REMEDY = (
    "If it is needed, move it away, create its topic on the broker, stop the broker, and put its files (not "
    "partition.metadata) into the folder that the broker has created."
)
_MISSING_ID_REMEDY = (
    f"{RECOVER_ALL}, which writes the id: the cluster's metadata knows the topic. If the folder is left over "
    "from an earlier topic of this name, move it out of the log directory first."
)

_SHORT_REMEDY = (
    "If this is the only copy, look for the lost files first, for example in a backup. If there are other "
    "replicas, run `stratalog recover --all`: this broker then registers as one that may have lost records, "
    "and fetches them."
)
_GONE_REMEDY = (
    "Before the broker starts, restore the folder from a backup, or make sure that another replica leads the "
    "partition: the broker then fetches the records from there."
)
_NO_METADATA = (
    "But the cluster's metadata is not in these directories, so the node has others, which were not checked: "
    "give --config, which names them all."
)
_LOST_METADATA = (
    f"But {METADATA_DIRECTORY} is in none of the directories that server.properties names. A controller "
    "without it begins a new cluster, unless other controllers have the metadata: restore it from a backup."
)
_FETCHED_METADATA = (
    f"{METADATA_DIRECTORY} is in none of the directories that server.properties names, so that the broker "
    "fetches the cluster's metadata from the controllers. Which partitions it sets aside is not known here."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDirectory:
    """One log directory. `unflushed_size`: bytes that a broker reads again at its start unless `is_clean`."""

    directory: str
    partitions_count: int
    is_clean: bool
    is_in_use: bool
    unflushed_size: int


class StrayPartition(NamedTuple):
    """A partition that a broker renames to -stray when it starts, why, and what to do if it is needed."""

    path: str
    reason: str
    remedy: str = _STRAY_REMEDY


class ShortLog(NamedTuple):
    """A log that has lost records since its directory was shut down cleanly."""

    path: str
    reason: str
    remedy: str = _SHORT_REMEDY


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport(Report):
    """The directories of a node, and what keeps a broker from starting with them.

    `starts`: whether a broker starts, perhaps without some of the directories. It starts in spite of
    `strays`, which it does not serve; of `short_logs`; and of logs that are `gone`, which it begins again
    without records. `has_metadata`: the cluster's metadata is in one of the directories, or the cluster keeps
    it in ZooKeeper. `metadata_note` says what follows if it is not.
    """

    states: tuple[CheckedDirectory, ...]
    refusals: tuple[StartupRefusal, ...]
    strays: tuple[StrayPartition, ...] = ()
    short_logs: tuple[ShortLog, ...] = ()
    gone: tuple[GoneLog, ...] = ()
    starts: bool = True
    has_metadata: bool = True
    metadata_note: str = ""

    @property
    def may_start(self) -> bool:
        return not self.refusals

    @property
    def _unseen(self) -> tuple[StartupRefusal, ...]:
        return tuple(each for each in self.refusals if each.is_unseen)

    @property
    def status(self) -> Status:
        if not self.may_start:
            return Status.FAILED
        return Status.FINDINGS if self.strays or self.short_logs or self.gone else Status.FINE

    @property
    def verdict(self) -> str:
        used = [state.directory for state in self.states if state.is_in_use]
        known = [each for each in self.refusals if not each.is_unseen]
        if not self.starts:
            found = f"The broker will not start: {why_not_started(known)}."
        elif known:
            found = f"The broker must not be started yet: {why_not_started(known)}."
        elif self._unseen:
            found = f"It is not known whether the broker can be started: {why_not_started(self._unseen)}."
        elif used:
            found = "All is well."
        else:
            found = "The broker can be started."
        if known and self._unseen:
            found += f" Not everything was checked: {why_not_started(self._unseen)}."
        if self.metadata_note:
            found += f" {self.metadata_note}"
        if self.strays:
            count = counted(len(self.strays), "partition")
            found += f" It does not serve {count}, which it will set aside as stray."
        if self.short_logs:
            found += f" Records of {counted(len(self.short_logs), 'log')} are missing."
        if self.gone:
            count, are = counted(len(self.gone), "partition"), "is" if len(self.gone) == 1 else "are"
            found += f" Records are missing: {count} of the checkpoints {are} gone."
        if used:
            return f"{found} A broker or another program is using {', '.join(used)} now."
        unclean = [state for state in self.states if not state.is_clean]
        size = sum(state.unflushed_size for state in unclean)
        if unclean and size:
            return (
                f"{found} It was not shut down cleanly: a broker reads {size_text(size)} again before it "
                "serves. `stratalog recover` does that first, and faster."
            )
        return found

    def tables(self) -> list[Table]:
        return [
            Table(
                title="Log directories",
                columns=["!directory", ">partitions", "shut down cleanly", "in use", ">to read again"],
                rows=[
                    [
                        state.directory,
                        str(state.partitions_count),
                        "yes" if state.is_clean else "no",
                        "yes" if state.is_in_use else "no",
                        "-" if state.is_clean else size_text(state.unflushed_size),
                    ]
                    for state in self.states
                ],
            ),
            Table(
                title="Partitions that the broker sets aside as -stray",
                columns=["!partition", "why", "what to do"],
                rows=[[stray.path, f"{stray.reason}.", stray.remedy] for stray in self.strays],
            ),
            Table(
                title="Logs that have lost records",
                columns=["!partition", "why", "what to do"],
                rows=[[each.path, f"{each.reason}.", each.remedy] for each in self.short_logs],
            ),
            Table(
                title="Partitions that are gone",
                columns=["!partition", "why", "what to do"],
                rows=[[_path(gone), sentence(gone.words), _GONE_REMEDY] for gone in self.gone],
            ),
            refusals_table([each for each in self.refusals if not each.is_unseen]),
            replace(refusals_table(self._unseen), title="What could not be checked"),
        ]

    def words(self) -> Sequence[str]:
        return ()

    def totals(self) -> dict[str, int]:
        return {
            "directories": len(self.states),
            "partitions": sum(state.partitions_count for state in self.states),
            "refusals": len(self.refusals),
            "strays": len(self.strays),
            "short_logs": len(self.short_logs),
            "gone": len(self.gone),
            "bytes_to_read_again": sum(state.unflushed_size for state in self.states if not state.is_clean),
        }

    def to_document(self) -> dict[str, object]:
        return {
            "directories": [asdict(state) for state in self.states],
            "refusals": [refusal_document(refusal) for refusal in self.refusals],
            "strays": [stray._asdict() for stray in self.strays],
            "short_logs": [each._asdict() for each in self.short_logs],
            "gone": [
                {
                    "path": _path(gone),
                    "checkpoint": gone.checkpoint,
                    "offset": gone.offset,
                    "remedy": _GONE_REMEDY,
                }
                for gone in self.gone
            ],
            "may_start": self.may_start,
            "starts": self.starts,
            "has_metadata": self.has_metadata,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """A request: the log directories of one node, and what its server.properties says.

    `is_controller`: its process.roles includes controller, so the node itself has the cluster's metadata.
    `is_whole_node`: `siblings` are all of its log.dirs.
    """

    directories: Sequence[str]
    siblings: Sequence[str] = ()
    metadata_directory: str | None = None
    node_id: int | None = None
    is_controller: bool = False
    is_whole_node: bool = False
    disk: DiskReader = field(default_factory=DiskReader)

    def run(self) -> DoctorReport:
        """Look at all directories. NotALogDirectoryError if a path is not a log directory."""
        same = self._named_twice()
        paths = [path for path in absolute_paths(self.directories) if path not in same]
        for path in paths:
            check_log_directory(self.disk, path)
        node = find_node(
            self.disk,
            [*paths, *self._others(paths)],
            metadata_directory=self.metadata_directory,
            is_damaged=True,
        )
        unformatted = tuple(self._unformatted(paths))
        # `format` makes a cluster that knows the partitions, so none of them is a stray then.
        strays = () if unformatted else tuple(self._strays(paths, node))
        refusals = (
            *(_named_twice_in_log_dirs(path, other) for path, other in same.items()),
            *unformatted,
            *startup_refusals(
                self.disk,
                paths,
                siblings=self._others(paths),
                metadata_directory=self.metadata_directory,
                node_id=self.node_id,
                node=node,
                strays={stray.path for stray in strays},
            ),
        )
        states = tuple(self._state(path) for path in paths)
        has_metadata = not node.is_kraft or node.metadata_directory is not None
        return DoctorReport(
            states=states,
            refusals=refusals,
            strays=strays,
            short_logs=tuple(self._short_logs(paths)),
            gone=() if unformatted else tuple(self._gone(paths, node, {each.path for each in refusals})),
            has_metadata=has_metadata,
            metadata_note="" if has_metadata else self._metadata_note(states),
            starts=not is_start_refused(
                refusals, [*paths, *self._others(paths)], self.metadata_directory or node.metadata_directory
            ),
        )

    def _named_twice(self) -> dict[str, str]:
        """The log directories that log.dirs also names by another path: a broker refuses to start then.

        UsageError if it is not log.dirs, but the user, who names a directory twice.
        """
        paths = absolute_paths(self.directories)
        if not {*paths} <= {absolute_path(path) for path in self.siblings}:
            check_named_once(self.disk, paths)
        return find_same(self.disk, paths)

    def _metadata_note(self, states: Sequence[CheckedDirectory]) -> str:
        """What follows from it that no directory has the cluster's metadata."""
        if not self.is_whole_node:
            return _NO_METADATA
        if not any(state.partitions_count for state in states):
            return ""  # as before the first start
        return _LOST_METADATA if self.is_controller else _FETCHED_METADATA

    def _others(self, paths: Sequence[str]) -> list[str]:
        return [path for path in self.siblings if path not in paths]

    def _unformatted(self, paths: Sequence[str]) -> Iterator[StartupRefusal]:
        """The reason if the node's directories were never formatted: nothing shows whose they are."""
        special = [self.metadata_directory] if self.metadata_directory else []
        if not are_brokers(self.disk, [*paths, *self.siblings, *special]):
            yield StartupRefusal(
                RefusalKind.META_PROPERTIES,
                paths[0],
                META_PROPERTIES,
                "The directory is not formatted: no broker has used it.",
                "Run `stratalog format`, which gives what is in it to a new broker.",
            )

    def _strays(self, paths: Sequence[str], node: Node) -> Iterator[StrayPartition]:
        is_new = self.is_controller and node.metadata_directory is None
        for path in paths:
            try:
                layout = classify(self.disk, path)
            except DiskError:  # among the refusals
                continue
            for entry in layout.partitions:
                if is_new:
                    yield StrayPartition(layout.path(entry), _NEW_CLUSTER)
                    continue
                file = PartitionMetadataFile(self.disk, join_path(layout.path(entry), PARTITION_METADATA))
                try:
                    topic_id = file.read()
                except (CorruptCheckpointError, DiskError):  # among the refusals
                    continue
                reason = node.stray_reason(entry.topic_partition, topic_id)
                if reason is not None:
                    remedy = _stray_remedy(entry.topic_partition, topic_id, node)
                    yield StrayPartition(layout.path(entry), reason, remedy)

    def _short_logs(self, paths: Sequence[str]) -> Iterator[ShortLog]:
        for path in paths:
            with suppress(DiskError):  # among the refusals
                for problem in short_logs_in(self.disk, classify(self.disk, path)):
                    words = problem.words[0].upper() + problem.words[1:]
                    yield ShortLog(join_path(path, problem.name), words)

    def _gone(self, paths: Sequence[str], node: Node, refused: Collection[str]) -> Iterator[GoneLog]:
        """`refused`: paths that a broker refuses, for example a file with the name of a partition."""
        found = read_gone_logs(self.disk, [*paths, *self._others(paths)], node)
        yield from (gone for gone in found if gone.directory in paths and _path(gone) not in refused)
        for path in paths:
            yield from read_emptied_logs(self.disk, path)

    def _state(self, path: str) -> CheckedDirectory:
        try:
            partitions = classify(self.disk, path).partitions
            points = DirectoryCheckpoints(self.disk, path).recovery_points.read()
            unflushed_size = sum(
                self._unflushed(join_path(path, entry.name), points.get(entry.topic_partition, 0))
                for entry in partitions
            )
        except DiskError:  # among the refusals
            partitions, unflushed_size = (), 0
        return CheckedDirectory(
            directory=path,
            partitions_count=len(partitions),
            is_clean=was_shut_down(self.disk, path),
            is_in_use=self.disk.is_in_use(path),
            unflushed_size=unflushed_size,
        )

    def _unflushed(self, directory: str, recovery_point: int) -> int:
        """The bytes of the segments, from the one that contains the recovery point on."""
        suffix = FileKind.LOG.value
        sizes = {
            int(name.removesuffix(suffix)): size
            for name, size in self.disk.list_sizes(directory, suffix).items()
            if name.endswith(suffix) and name.removesuffix(suffix).isdecimal()
        }
        bases = sorted(sizes)
        first = max(0, bisect_right(bases, recovery_point) - 1)
        return sum(sizes[base] for base in bases[first:])


def _stray_remedy(key: TopicPartition, topic_id: UUID | None, node: Node) -> str:
    """What to do with a stray partition; less if the cluster has a topic of its name, with a replica here."""
    known = node.topic_id(key.topic)
    if known is None or node.stray_reason(key, known) is not None:
        return _STRAY_REMEDY
    return _MISSING_ID_REMEDY if topic_id is None else own_id_remedy(key.topic, None)


def _path(gone: GoneLog) -> str:
    return join_path(gone.directory, str(gone.topic_partition))


def _named_twice_in_log_dirs(path: str, other: str) -> StartupRefusal:
    words = f"log.dirs names this directory twice: {path} and {other} are one directory."
    return StartupRefusal(RefusalKind.TWICE, other, "", words, f"Remove {path} from log.dirs.")
