"""`format_directories`: turn log directories into those of a stand-alone broker.

1. The directories are examined. A run that must be refused is refused now, before anything is created.
2. All of them are locked, and examined again. Logs of `open_log` that were closed are taken over, as in any
   session, by a recovery; it changes only logs that were damaged since. A directory that was not shut down
   cleanly is refused.
3. The ids are noted in each directory (`note.py`).
4. These are written: missing topic ids, missing high watermarks, the snapshot of the metadata,
   bootstrap.checkpoint, and clean-shutdown files with the epoch that the metadata has for the broker.
5. meta.properties is written, last in the directory with the metadata. A broker does not start before that.
6. The notes are deleted.

After step 2, logs are not changed, so the clean-shutdown files stay where they are until they are replaced.
If a run is killed anywhere, the next run finishes it, with the same ids. Kafka: Formatter, StorageTool
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdown, CleanShutdownFile
from stratalog.directory.cluster_metadata import BOOTSTRAP_CHECKPOINT, METADATA_DIRECTORY
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.identity import MakeId, check_unformatted, decide_identity, with_topics
from stratalog.directory.formatting.look import FoundTopics, find_topics, plan_topics, wanted_topics
from stratalog.directory.formatting.note import (
    Identity,
    delete_note,
    has_format_note,
    is_complete,
    read_identity,
    write_identity,
)
from stratalog.directory.formatting.records import ClusterRecords
from stratalog.directory.formatting.releases import release_of
from stratalog.directory.formatting.result import FormatResult, FormattedDirectory, FormattedTopic
from stratalog.directory.kind import check_log_directory
from stratalog.directory.layout import Layout, classify
from stratalog.directory.locking import MakeLock
from stratalog.directory.log_directory import why_unclean
from stratalog.directory.lone_logs import are_closed, check_not_in_use
from stratalog.directory.meta_properties import MetaProperties, write_meta_properties
from stratalog.directory.owners import check_owners, current_groups, current_user
from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.directory.session import RecoverySources, Session, Unclean, refusal_of_unclean, unique_paths
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.directory.written_topics import delete_written_topics
from stratalog.errors import FormatRefusedError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import PARTITION_METADATA
from stratalog.files.paths import absolute_path, join_path
from stratalog.log.partition_metadata import PartitionMetadataFile


def format_directories(
    directories: Sequence[Path],
    options: FormatOptions | None = None,
    *,
    disk: Disk | None = None,
    clock: Clock = system_clock,
    make_lock: MakeLock = DirectoryLock,
    make_id: MakeId = uuid4,
) -> FormatResult:
    """Write the metadata of a cluster of one node that has these log directories and the topics in them.

    A directory may be new. FormatRefusedError if one is formatted already, or its partitions contradict each
    other; LogDirLockedError if one is in use; NeedsRecoveryError if one was not shut down cleanly;
    NotALogDirectoryError if one is something else. In all these cases nothing was changed.
    """
    formatting = _Formatting(
        directories,
        options or FormatOptions(),
        disk=Disk(require_owner=True) if disk is None else disk,
        clock=clock,
        make_lock=make_lock,
        make_id=make_id,
    )
    return formatting.rehearse() if formatting.options.dry_run else formatting.run()


class _Formatting:
    def __init__(
        self,
        directories: Sequence[Path],
        options: FormatOptions,
        *,
        disk: Disk,
        clock: Clock,
        make_lock: MakeLock,
        make_id: MakeId,
    ) -> None:
        self.options = options
        self._log_dirs = unique_paths(disk, directories)
        special = options.metadata_directory
        self._metadata_directory = self._log_dirs[0] if special is None else absolute_path(special)
        self._paths = list(dict.fromkeys([*self._log_dirs, self._metadata_directory]))
        self._release = release_of(options.release)
        self._endpoints = options.decided_endpoints()
        self._settings = options.settings()
        self._disk = disk
        self._clock = clock
        self._make_lock = make_lock
        self._make_id = make_id

    def rehearse(self) -> FormatResult:
        """The plan: takes no lock, changes nothing."""
        found, identity, is_new = self._look()
        result = self._result(identity, plan_topics(self._disk, self._clock, found, self.options, identity))
        refusals = [each for each in self._refusals() if each.kind is not RefusalKind.META_PROPERTIES]
        result = replace(result, is_plan=True, refusals=tuple(refusals))
        return (
            _without_new_ids(result, keeps_cluster_id=self.options.cluster_id is not None)
            if is_new
            else result
        )

    def run(self) -> FormatResult:
        self._look()  # a run that is refused creates no directory and no lock file
        session = Session(
            self._paths,
            unclean=Unclean.RECOVER,
            sources=RecoverySources(
                server=self.options.server,
                topics=TopicConfigs(
                    None if self.options.server is None else self.options.server.log, self._settings
                ),
            ),
            creates=True,
            disk=self._disk,
            clock=self._clock,
            make_lock=self._make_lock,
        )
        try:
            session.open(lambda: self._before_take_over(session))
            return replace(self._format(session), recovery=session.recovery)
        finally:
            session.release()

    def _look(self) -> tuple[FoundTopics, Identity, bool]:
        """What is there, the ids for it, and whether they are new. Takes no lock, changes nothing."""
        self._check_apart()
        for path in self._paths:
            check_log_directory(self._disk, path, may_be_new=True)
        layouts = [self._layout(path) for path in self._paths]
        earlier = read_identity(self._disk, self._paths)
        check_unformatted(self._disk, self._paths, earlier)
        for layout in layouts:
            if self._disk.exists(layout.directory):
                check_not_in_use(self._disk, layout.directory)
                check_owners(self._disk, layout, current_user(), current_groups())
        self._check_clean(layouts)
        found, identity = self._decide(layouts, earlier)
        return found, identity, earlier is None

    def _check_apart(self) -> None:
        """UsageError if a directory is inside another: a broker would treat it as a partition."""
        for path in self._paths:
            around = [other for other in self._paths if path.startswith(f"{other}/")]
            if around:
                raise UsageError(f"{path} is inside {around[0]}: a log directory cannot contain another one.")

    def _layout(self, path: str) -> Layout:
        return classify(self._disk, path) if self._disk.exists(path) else Layout(path, (), (), (), (), ())

    def _check_clean(self, layouts: Sequence[Layout]) -> None:
        """NeedsRecoveryError if a directory was not shut down cleanly.

        Logs of `open_log` that were closed are not refused: the session takes them over. Nor is a directory
        with a note refused: a run may have been killed while it took logs over.
        """
        reasons, not_new = [], []
        for layout in layouts:
            has_file = CleanShutdownFile(self._disk, layout.directory).exists()
            reason = why_unclean(self._disk, layout, has_clean_shutdown=has_file)
            not_new += [layout.directory] if has_file or reason is not None else []
            if reason is None or has_format_note(self._disk, layout.directory):
                continue
            if not are_closed(self._disk, layout, has_clean_shutdown=has_file):
                reasons.append((layout.directory, reason))
        if reasons:
            raise refusal_of_unclean(reasons, not_new, or_else="")

    def _decide(self, layouts: Sequence[Layout], earlier: Identity | None) -> tuple[FoundTopics, Identity]:
        identity = decide_identity(
            self.options, self._paths, self._metadata_directory, earlier, self._make_id
        )
        found = find_topics(self._disk, [each for each in layouts if each.directory in self._log_dirs])
        for layout in layouts:
            if layout.partitions and layout.directory not in self._log_dirs:
                raise FormatRefusedError(
                    layout.directory,
                    f"It is only for the metadata: no broker would find {layout.partitions[0].name} in it. "
                    "Move its partitions to one of log.dirs.",
                )
        names = wanted_topics(found, self.options).keys() - found.ids.keys()
        return found, with_topics(identity, names, self._make_id)

    def _before_take_over(self, session: Session) -> None:
        """Note the ids before logs of `open_log` are taken over: the note lets an interrupted run go on."""
        layouts = [each.layout for each in session.directories]
        self._check_clean(layouts)
        earlier = read_identity(self._disk, self._paths)
        check_unformatted(self._disk, self._paths, earlier)
        _, identity = self._decide(layouts, earlier)
        self._note(session, identity)

    def _note(self, session: Session, identity: Identity) -> None:
        if is_complete(self._disk, identity):
            raise FormatRefusedError(
                self._metadata_directory,
                "It is formatted already, and was not shut down cleanly since. Run `stratalog recover`, or "
                "start the broker.",
            )
        for layout in (each.layout for each in session.directories):
            check_owners(self._disk, layout, current_user(), current_groups())
        for directory in session.directories:
            directory.before_adding()
        for path in self._paths:
            write_identity(self._disk, path, identity)

    def _format(self, session: Session) -> FormatResult:
        """Everything that is done under the locks."""
        layouts = [self._layout(path) for path in self._paths]
        earlier = read_identity(self._disk, self._paths)
        check_unformatted(self._disk, self._paths, earlier)
        found, identity = self._decide(layouts, earlier)
        topics = plan_topics(self._disk, self._clock, found, self.options, identity)
        was_finished = earlier is not None and is_complete(self._disk, identity)
        if not was_finished:
            self._note(session, identity)
            self._write(session, identity, found, topics)
        for directory in session.directories:
            directory.before_adding()
            delete_written_topics(self._disk, directory.path)
        for directory in session.directories:
            delete_note(self._disk, directory.path)
        return replace(
            self._result(identity, topics), refusals=tuple(self._refusals()), was_finished=was_finished
        )

    def _write(
        self, session: Session, identity: Identity, found: FoundTopics, topics: tuple[FormattedTopic, ...]
    ) -> None:
        disk = self._disk
        ids = {topic.name: topic.topic_id for topic in topics}
        for partition in found.without_id:
            file = PartitionMetadataFile(disk, join_path(partition.directory, PARTITION_METADATA))
            topic_id = ids[partition.topic_partition.topic]
            assert topic_id is not None, "it has one by now"
            file.record(topic_id)
            file.flush()
        defaults = LogConfig() if self.options.server is None else self.options.server.log
        records = ClusterRecords(
            identity,
            self._release,
            self._directories(identity),
            topics,
            min_insync_replicas=defaults.min_insync_replicas,
        )
        for directory in session.directories:
            _store_high_watermarks(directory.checkpoints)
        self._write_snapshot(records)
        for path in self._paths:
            disk.replace(join_path(path, BOOTSTRAP_CHECKPOINT), records.bootstrap(self._clock))
        for directory in session.directories:
            if directory.path in self._log_dirs:
                directory.write_clean_shutdown(CleanShutdown(broker_epoch=records.broker_epoch))
        others = [path for path in self._paths if path != self._metadata_directory]
        for path in [*others, self._metadata_directory]:
            properties = MetaProperties(
                node_id=identity.node_id,
                cluster_id=identity.cluster_id,
                directory_id=identity.directories[path],
            )
            write_meta_properties(disk, path, properties, now_ms=self._clock())

    def _write_snapshot(self, records: ClusterRecords) -> None:
        disk = self._disk
        folder = join_path(self._metadata_directory, METADATA_DIRECTORY)
        disk.make_directory(folder)
        disk.sync_directory(self._metadata_directory)
        # An interrupted run may have left a snapshot with other topics, which a broker could take for the
        # newest.
        for entry in disk.list_directory(folder):
            if entry.name != records.snapshot_name:
                disk.delete(join_path(folder, entry.name))
        disk.sync_directory(folder)
        disk.replace(join_path(folder, records.snapshot_name), records.snapshot(self._endpoints, self._clock))

    def _directories(self, identity: Identity) -> tuple[FormattedDirectory, ...]:
        return tuple(
            FormattedDirectory(
                path, identity.directories[path], path == self._metadata_directory, path in self._log_dirs
            )
            for path in self._paths
        )

    def _result(self, identity: Identity, topics: tuple[FormattedTopic, ...]) -> FormatResult:
        return FormatResult(
            cluster_id=identity.cluster_id,
            node_id=identity.node_id,
            release=self._release.name,
            endpoints=self._endpoints,
            directories=self._directories(identity),
            topics=topics,
        )

    def _refusals(self) -> tuple[StartupRefusal, ...]:
        existing = [path for path in self._log_dirs if self._disk.exists(path)]
        return startup_refusals(
            self._disk,
            existing,
            metadata_directory=self._metadata_directory,
            node_id=self.options.decided_node_id(),
        )


def _store_high_watermarks(checkpoints: DirectoryCheckpoints) -> None:
    """Give each log without a stored high watermark its end, as the clean stop of its only replica would.

    `open_log` stores none. Without one, nothing above offset 0 counts as replicated, and `retain` would find
    nothing to do in logs that the broker trims soon after its start. The logs are closed: their recovery
    points are their ends.
    """
    ends = checkpoints.recovery_points.read()
    checkpoints.high_watermarks.update(lambda known: {**ends, **known})


def _without_new_ids(result: FormatResult, *, keeps_cluster_id: bool) -> FormatResult:
    """The plan without the generated ids: the run will generate others."""
    return replace(
        result,
        cluster_id=result.cluster_id if keeps_cluster_id else None,
        directories=tuple(found._replace(directory_id=None) for found in result.directories),
        topics=tuple(replace(topic, topic_id=None) if topic.is_new_id else topic for topic in result.topics),
    )
