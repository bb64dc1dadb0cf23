"""Opens the directories of a stopped node for an operation that changes them, or read-only for a dry run.

A run opens a session (`directory/session.py`). A dry run takes no lock, and is refused if the run would be.
If a directory was not shut down cleanly, recovery comes first, and its report becomes part of the operation's
report. A dry run sees the directories as that recovery would leave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stratalog.directory.checkpoints import Checkpoint, DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.kind import are_brokers, check_log_directory
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.layout import Problem, classify
from stratalog.directory.log_directory import LogDirectory, why_unclean
from stratalog.directory.refusal import StartupRefusal
from stratalog.directory.session import (
    RecoverySources,
    Session,
    Unclean,
    check_session,
    open_session,
    unique_paths,
)
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.errors import DiskError, NeedsRecoveryError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.files.paths import command_text, join_path
from stratalog.log.task_folders import remove_task_folders, task_folders
from stratalog.operations.named import check_names
from stratalog.operations.recover import RecoverOptions, RecoverReport, assess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stratalog.clock import Clock
    from stratalog.directory.locking import MakeLock
    from stratalog.engine.progress import OnProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The directories to work on. `disk` reads them; `session` is None in a dry run, or if recovery failed.

    `starts` are the log start offsets of a recovery's plan, by directory. `rewritten` names the segments that
    a recovery would rewrite, by the path of their partition. `recovery` is the report of a recovery, or of
    its dry run. If the recovery failed, the operation does nothing. `notes` name the folders of killed
    compactions, and without a recovery the checkpoints that are treated as empty.
    """

    disk: Disk
    paths: Sequence[str]
    session: Session | None = None
    recovery: RecoverReport | None = None
    starts: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    rewritten: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def is_failed(self) -> bool:
        return self.recovery is not None and self.recovery.is_failed

    @property
    def directories(self) -> tuple[LogDirectory, ...]:
        """The locked directories; none without a session."""
        return () if self.session is None else self.session.directories


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How the directories of a node are opened."""

    directories: Sequence[str]
    sources: TopicSources
    unclean: Unclean
    disk: Disk
    clock: Clock
    make_lock: MakeLock
    on_progress: OnProgress
    names: Sequence[str] = ()  # of topics and partitions that must be there

    @contextmanager
    def opened(self, *, dry_run: bool) -> Iterator[Opened]:
        """Lock the directories, or in a dry run only look at them.

        NotALogDirectoryError if one is something else, LogDirLockedError if one is in use, NeedsRecoveryError
        if one was not shut down cleanly and recovery was not requested, or as in `_check_checkpoints`.
        """
        if self.unclean is Unclean.RECOVER:
            self._check_asked()
        else:
            check_session(self.disk, self.directories, unclean=self.unclean)
        self._check_checkpoints()
        with ExitStack() as held:
            opened = self._look(held) if dry_run else self._open(held)
            yield replace(opened, notes=(*opened.notes, *self._end_compactions(opened)))

    def _end_compactions(self, opened: Opened) -> Iterator[str]:
        """Remove the folders that killed compactions on a cluster left; returns a sentence about each.

        They hold copies of records. A dry run only names them.
        """
        if opened.is_failed:
            return
        for path in opened.paths:
            layout = classify(self.disk, path)
            for name in (*(entry.name for entry in layout.partitions), *layout.waiting, *layout.strays):
                with suppress(DiskError):  # the error of this partition is reported later
                    for folder, words in self._end_compaction(opened, join_path(path, name)):
                        yield f"{folder}: a killed compaction on a cluster left this folder{words}"

    def _end_compaction(self, opened: Opened, directory: str) -> Iterator[tuple[str, str]]:
        found = task_folders(self.disk, directory)
        if opened.session is None:
            yield from ((folder, ". A run removes it.") for folder in found)
            return
        removed = remove_task_folders(self.disk, directory) if found else []
        for folder in found:
            is_gone = folder in removed
            yield (
                folder,
                (
                    ", which was removed."
                    if is_gone
                    else ". It cannot be removed, and may hold copies of records: remove it, and run again."
                ),
            )

    def _check_asked(self) -> None:
        """UsageError for a wrong request: raised after a recovery, it would hide the report of the cuts."""
        paths = unique_paths(self.disk, self.directories)
        for path in paths:
            check_log_directory(self.disk, path)
        KnownTopics(self.disk, paths, self.sources)
        check_names(self.disk, paths, self.names)

    def _check_checkpoints(self) -> None:
        """NeedsRecoveryError if a cleanly shut down directory has a checkpoint that takes it offline.

        The facts of such a checkpoint are lost: for example, where a log starts.
        """
        paths = unique_paths(self.disk, self.directories)
        for path in paths:
            if self._is_unclean(path):
                continue  # recovery rewrites its checkpoints
            for checkpoint, problem in self._bad_checkpoints(path):
                if checkpoint.takes_offline:
                    raise NeedsRecoveryError(
                        checkpoint.path,
                        f"{problem.words}. A broker takes the log directory offline because of it",
                        f"Run {command_text('recover', '--all', *paths)} first, which rewrites it.",
                    )

    def known_topics(self, opened: Opened) -> KnownTopics:
        """The topics of the opened directories, with their settings; UsageError if a name is not there."""
        check_names(opened.disk, opened.paths, self.names)
        return KnownTopics(opened.disk, opened.paths, self.sources)

    def _notes(self) -> tuple[str, ...]:
        """Sentences about checkpoints that are treated as empty, as a broker does."""
        return tuple(
            f"{checkpoint.path}: {problem.words}. It is treated as empty, as a broker treats it: "
            f"{checkpoint.row.without_it}."
            for path in unique_paths(self.disk, self.directories)
            for checkpoint, problem in self._bad_checkpoints(path)
        )

    def _bad_checkpoints(self, directory: str) -> Iterator[tuple[Checkpoint, Problem]]:
        for checkpoint in DirectoryCheckpoints(self.disk, directory).every:
            with suppress(DiskError):  # the error of this directory is reported later
                checkpoint.read()
                if checkpoint.problem is not None:
                    yield checkpoint, checkpoint.problem

    def _look(self, held: ExitStack) -> Opened:
        paths = check_session(self.disk, self.directories, unclean=self.unclean)
        if not any(map(self._is_unclean, paths)):
            return Opened(disk=self.disk, paths=paths, notes=self._notes())
        from stratalog.directory.recovery.recover import recover_directories
        from stratalog.directory.recovery.rehearsal import log_starts, rehearsing_recovery

        rehearsal = held.enter_context(rehearsing_recovery())
        options = replace(self._options(paths), dry_run=True, on_plan=rehearsal.add)
        result = recover_directories(
            paths,
            disk=self.disk,
            clock=self.clock,
            server=options.server,
            topic_settings=options.topic_settings,
            metadata_directory=options.metadata_directory,
            options=options,
            on_progress=self.on_progress,
        )
        rehearsal.add_topic_ids(result)
        return Opened(
            disk=rehearsal.disk,
            paths=paths,
            recovery=assess(result, options, disk=self.disk),
            starts=log_starts(result),
            rewritten=rehearsal.rewritten,
        )

    def _open(self, held: ExitStack) -> Opened:
        session = open_session(
            self.directories,
            unclean=self.unclean,
            sources=RecoverySources(
                server=self.sources.server,
                topic_settings=self.sources.topic_settings,
                metadata_directory=self.sources.metadata_directory,
                on_progress=self.on_progress,
            ),
            disk=self.disk,
            clock=self.clock,
            make_lock=self.make_lock,
        )
        paths = [directory.path for directory in session.directories]
        opened: Session | None = session
        try:
            held.enter_context(session)
        except DiskError:
            if session.recovery is None or not session.recovery.is_failed:
                raise
            opened = None  # the report must still list what was cut off so far
        recovery = None
        if session.recovery is not None:
            recovery = assess(session.recovery, self._options(paths), disk=self.disk)
        notes = self._notes() if recovery is None else ()
        return Opened(disk=self.disk, paths=paths, session=opened, recovery=recovery, notes=notes)

    def _options(self, paths: Sequence[str]) -> RecoverOptions:
        server = self.sources.server
        return RecoverOptions(
            server=server,
            topic_settings=self.sources.topic_settings,
            metadata_directory=self.sources.metadata_directory,
            node_id=self.sources.node_id,
            log_dirs=tuple(paths) if server is None else (*paths, *server.manager.log_dirs),
        )

    def refusals(self, opened: Opened) -> tuple[StartupRefusal, ...]:
        """The reasons why a broker would refuse to start with the directories as they are now."""
        if opened.recovery is not None:
            return opened.recovery.refusals
        options = self._options(opened.paths)
        return startup_refusals(
            opened.disk,
            opened.paths,
            siblings=options.log_dirs,
            metadata_directory=options.metadata_directory,
            node_id=options.node_id,
        )

    def are_brokers(self, opened: Opened) -> bool:
        """Whether a broker has used these directories."""
        return are_brokers(opened.disk, self._options(opened.paths).log_dirs)

    def _is_unclean(self, path: str) -> bool:
        layout, file = classify(self.disk, path), CleanShutdownFile(self.disk, path)
        return why_unclean(self.disk, layout, has_clean_shutdown=file.exists()) is not None
