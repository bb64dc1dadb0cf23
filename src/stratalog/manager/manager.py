"""All logs of a node, in one log directory or several: open, create, delete, move, close.

    with LogManager(["data"], high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(("orders", 0), is_new=True)
        log.append(b"hello")

`startup` locks every directory, recovers what was not shut down cleanly (`directory/session.py`) and opens
the logs; `shutdown` closes them and writes the clean-shutdown files. In between, a directory whose disk fails
goes offline, and the others go on. Periodic work (`housekeeping.py`) is on a schedule to which callers can
add tasks.

Kafka: LogManager, and the checkpoint of high watermarks from ReplicaManager
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self
from uuid import UUID

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.config.keys import ConfigValue
from stratalog.directory.checkpoint_table import HIGH_WATERMARKS, LOG_START_OFFSETS, MANAGERS, RECOVERY_POINTS
from stratalog.directory.clean_shutdown import CleanShutdown
from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.home import topic_id_of_user
from stratalog.directory.locking import MakeLock
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.refusal import StartupRefusal
from stratalog.directory.session import RecoverySources, Session, Unclean
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.engine.progress import OnProgress
from stratalog.errors import LogDeletedError, StratalogError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import PartitionKey, TopicPartition
from stratalog.files.paths import absolute_path
from stratalog.log.api.managed_log import ManagedLog
from stratalog.log.partition_metadata import topic_id_of
from stratalog.log.scheduler import BackgroundScheduler, ScheduledTask, Scheduler
from stratalog.manager.cleaner import LogCleaner
from stratalog.manager.closing import close_logs
from stratalog.manager.copies import Copies, no_copy
from stratalog.manager.creation import create_in_first
from stratalog.manager.homes import Homes
from stratalog.manager.housekeeping import Housekeeping
from stratalog.manager.life import ManagerLife
from stratalog.manager.loading import Loading, LogOpening, Metrics
from stratalog.manager.moving import catch_up
from stratalog.manager.placement import Placement
from stratalog.manager.registry import LogRegistry, home_of
from stratalog.manager.removal import DelayedRemoval
from stratalog.manager.schedule import Schedule
from stratalog.manager.starting import Starting, check_any_online, open_directories
from stratalog.manager.truncation import truncate_fully_and_start_at, truncate_to
from stratalog.records.internal_topics import INTERNAL_TOPICS

_Offsets = Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]


class LogManager:
    """The logs in these directories, or in those of `server`. Call `startup` first, or use a `with`.

    The settings of topics come from `topics`, or else from the cluster's `metadata`, which by default is read
    from one of the directories. Both override `server`. `set_strays_aside` renames partitions that do not
    belong to this node according to that metadata. `high_watermark_follows_end` is for logs without replicas:
    appended records can be read at once. Thread-safe.
    """

    def __init__(
        self,
        directories: Sequence[Path] | None = None,
        *,
        server: ServerConfig | None = None,
        topics: TopicConfigs | None = None,
        metadata: ClusterMetadata | None = None,
        set_strays_aside: bool = False,
        high_watermark_follows_end: bool = False,
        on_progress: OnProgress | None = None,
        disk: Disk | None = None,
        clock: Clock = system_clock,
        scheduler: Scheduler | None = None,
        make_lock: MakeLock = DirectoryLock,
    ) -> None:
        self._is_configured = server is not None or topics is not None
        server = ServerConfig(ManagerConfig(), LogConfig(), ()) if server is None else server
        disk = Disk() if disk is None else disk
        self.config = server.manager
        self._logs = LogRegistry()
        self._loading = Loading(self._logs, set_strays_aside=set_strays_aside)
        self._session = Session(
            self.config.log_dirs if directories is None else directories,
            unclean=Unclean.RECOVER,
            sources=RecoverySources(
                server=server, topics=topics, on_progress=self._loading.telling(on_progress)
            ),
            creates=True,
            fail_alone=True,
            appends=True,
            disk=disk,
            clock=clock,
            make_lock=make_lock,
        )
        self._directories = {directory.path: directory for directory in self._session.directories}
        self._own_scheduler = BackgroundScheduler(clock)
        used: Scheduler = self._own_scheduler if scheduler is None else scheduler
        self._opening = LogOpening(disk, clock, used, TopicConfigs(server.log), high_watermark_follows_end)
        self._schedule = Schedule(used)
        self._starting = Starting(disk, server, topics, metadata)
        self._housekeeping = Housekeeping(self._logs, self.directories, clock, self.handle_log_dir_failure)
        self.cleaner = LogCleaner(
            self._logs, self.directories, self.config, clock, self.handle_log_dir_failure
        )
        self._removal = DelayedRemoval(disk, self._schedule, self.handle_log_dir_failure)
        self._placement = Placement(self._directories, self._logs, self.config.cordoned_log_dirs)
        self._homes = Homes(
            self._directories,
            self._housekeeping,
            self._removal,
            self.handle_log_dir_failure,
            lambda: self.topics.defaults.file_delete_delay_ms,
        )
        self._copies = Copies(self._logs, self.cleaner.manager, disk, self._homes)
        self._life = ManagerLife(self.directories[0].path)

    # Start and end

    def startup(self) -> None:
        """Lock, recover and open everything, and begin the scheduled work.

        A directory that cannot be used is offline afterwards. LogDirLockedError, TwoNodesError, UsageError (a
        partition is there twice) or DiskError (no directory can be used) end it; then no lock is held.
        """
        with self._life.lock:
            self._life.begin()
            try:
                topics, metadata = open_directories(self._starting, self._session)
                self._opening = self._opening._replace(topics=topics)
                failed = self._loading.load(self._opening, self.directories, metadata)
                check_any_online(self.directories)
            except BaseException:  # an interrupt too: nothing else would release the locks
                self._let_go()
                raise
            for directory in failed:
                self._drop(directory)
            self._loading.begin_tasks()
            self._copies.go_on()
            self._life.open()
            delay_ms = self.topics.defaults.file_delete_delay_ms
            self._removal.leftovers(self.directories, max(self.config.log_initial_task_delay_ms, delay_ms))
        self._housekeeping.begin(self._schedule, self.config)
        # Retention and the cleaner need known settings: with the defaults, wrong records could be deleted.
        if metadata is not None or self._is_configured:
            # Kafka's own topics are compacted by settings that only the cluster's metadata has.
            known = INTERNAL_TOPICS if metadata is not None else {*filter(self.topics.has, INTERNAL_TOPICS)}
            self.cleaner.begin(self._schedule, spared=INTERNAL_TOPICS - known)

    def shutdown(self, broker_epoch: int | None = None) -> None:
        """Close all logs and write the clean-shutdown files. Calling it again has no effect.

        A directory that fails meanwhile gets no such file; `directories` shows it afterwards. An error is
        raised only if appended records may not all be on the device.

        `broker_epoch` is written into these files, instead of the epoch that each directory was opened with.
        In a forked child this writes nothing, and the logs stay open in its parent.
        """
        if not self._life.end():
            return
        if not self._life.is_here:
            self._let_go()
            return
        self._schedule.stop()
        self.cleaner.shutdown()  # after the schedule, which may be about to start the cleaner
        self._own_scheduler.close()
        self._housekeeping.notice_failures()
        online = [directory for directory in self.directories if directory.is_online]
        try:
            self._housekeeping.checkpoint([row for row in MANAGERS if row.is_written_open])
            losses = close_logs(online, self._logs, threads=self.config.num_recovery_threads_per_data_dir)
            self._housekeeping.checkpoint([row for row in MANAGERS if not row.is_written_open])
            self._session.put_back_all(
                None if broker_epoch is None else CleanShutdown(broker_epoch=broker_epoch)
            )
        finally:
            self._let_go()
        if losses:
            raise losses[0]

    def __enter__(self) -> Self:
        self.startup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def add_task(
        self, name: str, task: ScheduledTask, *, every_ms: int, stop: ScheduledTask | None = None
    ) -> None:
        """Run a task periodically while the manager is open, as retention does.

        The first run is after log.initial.task.delay.ms. Shutdown calls `stop`, then waits for the task.
        """
        self._life.check_opener()
        delay_ms = self.config.log_initial_task_delay_ms
        self._schedule.add(name, task, every_ms=every_ms, delay_ms=delay_ms, stop=stop)

    # What there is

    @property
    def directories(self) -> tuple[LogDirectory, ...]:
        return self._session.directories

    @property
    def live_log_dirs(self) -> tuple[str, ...]:
        """The paths of the directories that are online."""
        return tuple(path for path, directory in self._directories.items() if directory.is_online)

    @property
    def problems(self) -> tuple[StartupRefusal, ...]:
        """The reasons why a broker would refuse to start now, in the directories that are online."""
        return startup_refusals(self._opening.disk, self.live_log_dirs)

    @property
    def strays(self) -> tuple[str, ...]:
        """The paths of partitions set aside as stray, now or before; they stay until someone removes them."""
        return tuple(self._loading.strays)

    @property
    def topics(self) -> TopicConfigs:
        """The settings of all topics."""
        return self._opening.topics

    def all_logs(self) -> tuple[ManagedLog, ...]:
        """The current logs, and the copies that are being filled."""
        return tuple(self._logs)

    def metrics(self) -> Metrics:
        """Gauges by Kafka's names (kafka.log:type=LogManager); those by directory are a dictionary.

        The gauges of remaining work are absent when nothing remains to be loaded.
        """
        return self._loading.metrics(self.directories)

    def get_log(self, topic_partition: PartitionKey, *, is_future: bool = False) -> ManagedLog | None:
        """The log, None if there is none; DiskError if it is in a directory that went offline."""
        topic_partition = TopicPartition.of(topic_partition)
        with self._life.lock:
            log = self._logs.find(topic_partition, is_future=is_future)
            if log is not None and log.failure is not None:
                self.handle_log_dir_failure(home_of(log), log.failure)
                log = self._logs.find(topic_partition, is_future=is_future)
            return log

    # Create

    def get_or_create_log(
        self,
        topic_partition: PartitionKey,
        *,
        topic_id: UUID | str | None = None,
        is_new: bool = False,
        is_future: bool = False,
        directory: Path | None = None,
    ) -> ManagedLog:
        """The log, created if necessary: in `directory`, in the preferred one, or in the one with the fewest
        logs.

        If a directory is offline, a log is created only with `is_new`: a log that is not new may be in that
        directory.
        """
        topic_partition = TopicPartition.of(topic_partition)
        wanted = None if topic_id is None else topic_id_of_user(topic_id)
        with self._life.lock:
            self._life.check_open()
            log = self.get_log(topic_partition, is_future=is_future)
            if log is not None:
                topic_id_of(self._opening.disk, log.directory, wanted=wanted)
                return log
            if not is_new:
                for lost in self.directories:
                    lost.check()
            homes = self._placement.homes_for(topic_partition, directory, is_future=is_future)
            if is_future:
                self._copies.begin(topic_partition)
            try:
                log = create_in_first(
                    self._opening,
                    homes,
                    topic_partition,
                    self.handle_log_dir_failure,
                    is_future=is_future,
                    topic_id=wanted,
                )
                self._logs.add(log, is_future=is_future)
                self._placement.forget(topic_partition)
                return log
            finally:
                self._copies.end()

    def set_preferred_log_dir(self, topic_partition: PartitionKey, directory: Path) -> None:
        """Choose the directory in which the log, or the copy of an existing log, will be created."""
        topic_partition = TopicPartition.of(topic_partition)
        with self._life.lock:
            self._placement.prefer(topic_partition, directory)

    def update_topic_config(self, topic: str, settings: Mapping[str, ConfigValue]) -> LogConfig:
        """Replace the topic's settings from now on, for its open logs too."""
        with self._life.lock:
            config = self.topics.update(topic, settings)
            for topic_partition in self._logs.configure(topic, config):
                self.cleaner.manager.abort(topic_partition)
            return config

    # Cut

    def truncate_to(self, offsets: _Offsets, *, is_future: bool = False) -> None:
        """Truncate logs to offsets, and write the recovery points of their directories."""
        self._life.check_opener()
        affected: dict[str, LogDirectory] = {}
        for topic_partition, offset in offsets.items():
            log = self.get_log(topic_partition, is_future=is_future)
            if log is not None and truncate_to(self.cleaner.manager, log, offset):
                affected[home_of(log)] = self._directories[home_of(log)]
        self.checkpoint_log_recovery_offsets(affected.values())

    def truncate_fully_and_start_at(
        self, topic_partition: PartitionKey, offset: int, *, is_future: bool = False
    ) -> None:
        """Empty a log; its next record gets this offset."""
        topic_partition = TopicPartition.of(topic_partition)
        self._life.check_opener()
        log = self.get_log(topic_partition, is_future=is_future)
        if log is not None:
            truncate_fully_and_start_at(self.cleaner.manager, log, offset)
            self.checkpoint_log_recovery_offsets([self._directories[home_of(log)]])

    # Delete and move

    def async_delete(self, topic_partition: PartitionKey, *, is_future: bool = False) -> ManagedLog | None:
        """Delete a log: its directory is renamed to -delete at once, and removed after file.delete.delay.ms.

        Readers can go on until then. Returns None if there is no such log.
        """
        topic_partition = TopicPartition.of(topic_partition)
        with self._life.lock:
            self._life.check_open()
            log = self.get_log(topic_partition, is_future=is_future)
            if log is not None:
                home = home_of(log)
                if not is_future:
                    self.cleaner.manager.abort(topic_partition)
                self._homes.retire(log, partial(LogDeletedError, log.directory))
                self._logs.remove(topic_partition, is_future=is_future)
                self._copies.end()
                self._homes.checkpoint_all(self._directories[home])
                self.cleaner.manager.forget(home, topic_partition)
            return log

    def replace_current_with_future_log(self, topic_partition: PartitionKey) -> ManagedLog:
        """Replace a log by its copy, which must be complete; the old log is deleted.

        Appends to the old log wait, and are then refused with a LogMovedError, so that none is lost.
        """
        topic_partition = TopicPartition.of(topic_partition)
        with self._life.lock:
            self._life.check_open()
            source = self.get_log(topic_partition)
            copy = self.get_log(topic_partition, is_future=True)
            if source is None or copy is None:
                raise no_copy(topic_partition)
            self._copies.swap(source, copy)
            return copy

    def move_log(self, topic_partition: PartitionKey, directory: Path) -> ManagedLog:
        """Move a log to another directory: copied while it is in use, then swapped. Returns the new one.

        The log is not cleaned meanwhile. The old `Log` object can be read for a while; changing or flushing
        it after the swap raises a LogMovedError. If another thread is moving the log to the same directory,
        this waits for it; its move to another one ends with a LogDeletedError. UsageError if it is there now.
        """
        key = TopicPartition.of(topic_partition)
        self._life.check_opener()
        self._copies.check_outside(key)
        self._give_way(key, directory)
        with self._copies.filling(key):
            source = self._give_way(key, directory)
            topic_id = topic_id_of(self._opening.disk, source.directory)
            copy = self.get_or_create_log(key, topic_id=topic_id, is_future=True, directory=directory)
            self._copies.fill(source, copy)
            with self._life.lock, source.holding_changes() as held, copy.holding_changes() as held_copy:
                self._life.check_open()
                catch_up(held, held_copy)
                self._copies.swap(held, held_copy)
            return copy

    def _give_way(self, key: TopicPartition, directory: Path) -> ManagedLog:
        """Delete a copy that was meant for another directory, as Kafka does; returns the log itself."""
        with self._life.lock:
            source, other = self.get_log(key), self.get_log(key, is_future=True)
            if source is None:
                raise UsageError(f"this log manager has no log of {key}.")
            if other is not None and home_of(other) != self._placement.directory(directory).path:
                self.async_delete(key, is_future=True)
            return source

    # Checkpoints and failures

    def flush_dirty_logs(self) -> None:
        """Flush the logs whose last flush is at least their flush.ms ago."""
        self._life.check_opener()
        self._housekeeping.flush_dirty_logs()

    def checkpoint_log_recovery_offsets(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write recovery-point-offset-checkpoint in all directories, or in some."""
        self._life.check_opener()
        self._housekeeping.checkpoint([RECOVERY_POINTS], directories)

    def checkpoint_log_start_offsets(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write log-start-offset-checkpoint in all directories, or in some."""
        self._life.check_opener()
        self._housekeeping.checkpoint([LOG_START_OFFSETS], directories)

    def checkpoint_high_watermarks(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write replication-offset-checkpoint in all directories, or in some."""
        self._life.check_opener()
        self._housekeeping.checkpoint([HIGH_WATERMARKS], directories)

    def handle_log_dir_failure(self, directory: Path, error: StratalogError) -> None:
        """Take a directory offline: its logs are dropped without writing; the other directories continue."""
        with self._life.lock:
            found = self._directories[absolute_path(directory)]
            found.fail(error)
            self._drop(found)

    def _drop(self, directory: LogDirectory) -> None:
        for log in self._logs.drop_directory(directory):
            log.close_handlers()
        self._copies.end()

    def _let_go(self) -> None:
        for log in self._logs:
            log.close_handlers()
        self._session.release()
