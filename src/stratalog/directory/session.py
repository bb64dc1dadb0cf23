"""The only way to change the log directories of a node, from their locks to their clean-shutdown files.

1. Each must be a log directory (`kind.py`), or become one if the session `creates`.
2. All of them are locked before the first change.
3. A directory that was not shut down cleanly, or has a pending write, is recovered, which finishes the write
   first; or the session is refused (`Unclean`).
4. The clean-shutdown file of a directory is removed before the first change there
   (`LogDirectory.before_change`).
5. The caller makes its changes, and writes the checkpoints.
6. The clean-shutdown file is written last (`put_back`), with its epoch, if that still holds.

So a session that finds nothing to do changes nothing. A session that is killed leaves directories without a
clean-shutdown file, which the next session recovers or refuses.

A directory whose disk fails ends the session, unless its directories `fail_alone`: then it goes offline and
the others continue, as in a broker. A session that `appends` records loses its epoch when it is killed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from stratalog.clock import Clock, system_clock
from stratalog.config import ServerConfig
from stratalog.directory.clean_shutdown import NO_PROMISE, CleanShutdown, CleanShutdownFile
from stratalog.directory.kind import check_log_directory
from stratalog.directory.layout import check_named_once, classify
from stratalog.directory.locking import MakeLock
from stratalog.directory.log_directory import LogDirectory, why_unclean
from stratalog.directory.lone_logs import check_not_in_use
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import (
    DiskError,
    LogDirLockedError,
    NeedsRecoveryError,
    NotALogDirectoryError,
    StratalogError,
    UsageError,
    WrongTypeError,
)
from stratalog.files.disk import Disk
from stratalog.files.entries import Path
from stratalog.files.lock import DirectoryLock
from stratalog.files.paths import absolute_path, command_text, join_path
from stratalog.files.reading import DiskReader

if TYPE_CHECKING:
    from stratalog.directory.recovery.result import RecoveryReport
    from stratalog.engine.progress import OnProgress

_OR_ELSE = ", or give --recover"

logger = logging.getLogger(__name__)


class Unclean(Enum):
    """What to do with a directory that was not shut down cleanly."""

    RECOVER = "recover"
    REFUSE = "refuse"


class RecoverySources(NamedTuple):
    """The inputs of a recovery; see `recover_directories`."""

    server: ServerConfig | None = None
    topics: TopicConfigs | None = None
    topic_settings: str | None = None
    metadata_directory: str | None = None
    on_progress: OnProgress | None = None


class Session:
    """The log directories of one node, opened for changes; call `open` first, or use `with`.

    `recovery` is the report of the recovery, if one was needed. `or_else` is the alternative to `stratalog
    recover` that a refusal offers.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        *,
        unclean: Unclean,
        sources: RecoverySources | None = None,
        creates: bool = False,
        fail_alone: bool = False,
        appends: bool = False,
        or_else: str = _OR_ELSE,
        disk: Disk | None = None,
        clock: Clock = system_clock,
        make_lock: MakeLock = DirectoryLock,
    ) -> None:
        self._disk = Disk(require_owner=True) if disk is None else disk
        self._clock = clock
        self._unclean = unclean
        self._sources = sources or RecoverySources()
        self._creates = creates
        self._fail_alone = fail_alone
        self._or_else = or_else
        self.directories = tuple(
            LogDirectory(self._disk, path, make_lock, appends=appends)
            for path in unique_paths(self._disk, directories)
        )
        self.recovery: RecoveryReport | None = None

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that did not fail."""
        return [directory for directory in self.directories if directory.is_online]

    def open(self, before_recovery: Callable[[], object] = lambda: None) -> None:
        """Lock all directories, and recover or refuse those that were not shut down cleanly.

        `before_recovery` is called when all are locked and some are to be recovered. It may raise to refuse.

        NotALogDirectoryError if one is something else, LogDirLockedError if one is in use,
        NeedsRecoveryError if one is refused; then nothing was changed, and nothing is held.
        """
        try:
            self._in_each(lambda directory: directory.check_kind(may_be_new=self._creates))
            if self._creates:
                self._in_each(LogDirectory.make)
            self._in_each(LogDirectory.lock)
            unclean = [found for found in self.online if self._in(found, found.why_unclean) is not None]
            not_new = [found for found in self.online if found in unclean or found.was_clean]
            if unclean and self._unclean is Unclean.REFUSE:
                reasons = [(found.path, found.why_unclean() or "") for found in unclean]
                raise refusal_of_unclean(reasons, [found.path for found in not_new], self._or_else)
            if unclean:
                before_recovery()
                self._recover(not_new)
        except BaseException:  # an interrupt too: nothing else would release the locks
            self.release()
            raise

    def put_back(self, directory: LogDirectory) -> None:
        """Write the clean-shutdown file of a directory again, as the last write to it.

        It gets the epoch that the directory was opened with, if that still holds.
        """
        others = [other for other in self.directories if other is not directory]
        directory.write_clean_shutdown(is_beside_epoch=any(other.has_epoch for other in others))

    def put_back_all(self, content: CleanShutdown | None) -> None:
        """Write the clean-shutdown files of all directories that did not fail, at the end of a node's run.

        The files get `content`, or if that is None, the content that each had when its directory was opened.
        If a directory has failed, they get no epoch, because its records may be gone.
        """
        all_succeeded = len(self.online) == len(self.directories)
        is_beside_epoch = content is None and any(found.has_epoch for found in self.directories)
        for directory in self.online:
            try:
                if all_succeeded:
                    directory.write_clean_shutdown(content, is_beside_epoch=is_beside_epoch)
                else:
                    directory.write_clean_shutdown(NO_PROMISE)
            except StratalogError as error:
                directory.fail(error)
        if all_succeeded and len(self.online) < len(self.directories):
            # A file could not be written, so the epoch in the other files no longer holds.
            self.put_back_all(content)

    def release(self) -> None:
        """Release the locks. A directory that has no clean-shutdown file by now was not shut down cleanly."""
        for directory in self.directories:
            directory.release()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _in_each(self, action: Callable[[LogDirectory], object]) -> None:
        for directory in self.online:
            self._in(directory, lambda directory=directory: action(directory))  # type: ignore[misc]

    def _in(self, directory: LogDirectory, action: Callable[[], object]) -> object:
        """Do something in one directory. If that fails and directories `fail_alone`, it goes offline.

        An error because it is in use, or not a log directory, stops the session for all of them.
        """
        try:
            return action()
        except (LogDirLockedError, NotALogDirectoryError):
            raise
        except StratalogError as error:
            if not self._fail_alone:
                raise
            directory.fail(error)
            return None

    def _recover(self, directories: Sequence[LogDirectory]) -> None:
        """Bring the directories to the state that a clean shutdown would have left.

        Clean directories are passed to the recovery too, which leaves them alone: the epoch of a directory
        depends on all others, and a clean one may hold the cluster's metadata. Only new directories are left
        out.
        """
        from stratalog.directory.recovery.choices import RecoveryChoices  # rarely needed
        from stratalog.directory.recovery.recover import recover_in_session
        from stratalog.directory.recovery.result import Outcome
        from stratalog.log.recovery.plan import MISSING

        by_path = {directory.path: directory for directory in directories}
        self.recovery = recover_in_session(
            directories, self._sources, self._disk, self._clock, RecoveryChoices()
        )
        for found in self.recovery.directories:
            directory = by_path[found.directory]
            if found.outcome is Outcome.CLEAN:
                continue
            if found.cut_before:
                logger.warning(
                    "%s: %d bytes of its logs were cut off by a recovery that did not end. %d of them are in "
                    "quarantine: `stratalog quarantine list` lists them.",
                    found.directory,
                    found.cut_before,
                    found.kept_before,
                )
            if found.has_unknown_cuts:
                logger.warning(
                    "%s: a recovery that did not end may have cut off bytes that are listed nowhere.",
                    found.directory,
                )
            for partition in found.partitions:
                for finding in partition.findings:
                    if finding.kind in MISSING:
                        path = join_path(found.directory, partition.name)
                        logger.warning("%s: %s %s", path, finding.words, finding.consequence)
            directory.recovered = found
            if found.error is not None:
                error = DiskError(
                    found.directory, f"it was not shut down cleanly, and recovery failed: {found.error}"
                )
                if not self._fail_alone:
                    raise error
                directory.fail(error)
            else:
                self._in(directory, directory.look_again)


def open_session(
    directories: Iterable[Path],
    *,
    unclean: Unclean,
    sources: RecoverySources | None = None,
    disk: Disk | None = None,
    clock: Clock = system_clock,
    make_lock: MakeLock = DirectoryLock,
) -> Session:
    """A session over the log directories of one node, for a `with`."""
    return Session(directories, unclean=unclean, sources=sources, disk=disk, clock=clock, make_lock=make_lock)


def check_session(
    disk: Disk, directories: Iterable[Path], *, unclean: Unclean, or_else: str = _OR_ELSE
) -> list[str]:
    """Raises what `open` would raise, for a dry run: takes no lock and changes nothing. Returns the paths."""
    paths = unique_paths(disk, directories)
    for path in paths:
        check_log_directory(disk, path)
    for path in paths:
        check_not_in_use(disk, path)
    if unclean is Unclean.REFUSE:
        reasons = {
            path: why_unclean(
                disk, classify(disk, path), has_clean_shutdown=CleanShutdownFile(disk, path).exists()
            )
            for path in paths
        }
        if refused := [(path, reason) for path, reason in reasons.items() if reason is not None]:
            raise refusal_of_unclean(refused, paths, or_else)
    return paths


def unique_paths(disk: DiskReader, directories: Iterable[Path]) -> list[str]:
    """The absolute paths; UsageError if two name one directory, even by different spellings or links."""
    paths = absolute_paths(directories)
    check_named_once(disk, paths)
    return paths


def absolute_paths(directories: Iterable[Path]) -> list[str]:
    """The absolute paths; UsageError if two are the same, or there is none."""
    if isinstance(directories, str | bytes | os.PathLike):
        raise WrongTypeError(f"{directories!r} is one directory; give a list of them: [{directories!r}].")
    if not isinstance(directories, Iterable):
        raise WrongTypeError(f"{directories!r} is not a list of directories.")
    paths = [absolute_path(directory) for directory in directories]
    twice = [path for number, path in enumerate(paths) if path in paths[:number]]
    if twice:
        raise UsageError(f"{twice[0]} is named twice.")
    if not paths:
        raise UsageError("name a log directory.")
    return paths


def refusal_of_unclean(
    unclean: Sequence[tuple[str, str]], directories: Sequence[str], or_else: str = _OR_ELSE
) -> NeedsRecoveryError:
    """The error for directories that were not shut down cleanly; each is given with what shows that.

    The command in it names all `directories` of the node, except new ones: the recovery of one depends on the
    cluster's metadata in another, and so does the broker's epoch.
    """
    path, reason = unclean[0]
    others = "" if len(unclean) == 1 else f", and {len(unclean) - 1} more"
    return NeedsRecoveryError(
        path,
        f"it was not shut down cleanly{others}: {reason}",
        f"Run {command_text('recover', *directories)} first{or_else}.",
    )
