"""A request for work on the directories of a stopped node: what operations that open them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stratalog.clock import Clock, system_clock
from stratalog.directory.known_topics import TopicSources
from stratalog.directory.locking import MakeLock
from stratalog.directory.session import Unclean
from stratalog.engine.progress import OnProgress
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.operations.opening import Opening


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """The directories of one node, the sources of its topics' settings, and the topics or partitions to work
    on (none: all)."""

    directories: Sequence[str]
    names: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    dry_run: bool = False
    unclean: Unclean = Unclean.REFUSE
    disk: Disk = field(default_factory=lambda: Disk(require_owner=True))
    clock: Clock = system_clock
    make_lock: MakeLock = DirectoryLock

    def opening(self, on_progress: OnProgress) -> Opening:
        """How the directories are opened for this request."""
        return Opening(
            directories=self.directories,
            sources=self.sources,
            unclean=self.unclean,
            disk=self.disk,
            clock=self.clock,
            make_lock=self.make_lock,
            on_progress=on_progress,
            names=self.names,
        )
