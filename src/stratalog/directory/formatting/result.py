"""What a format has done, or would do: the cluster, its directories, its topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from stratalog.config.quorum import Endpoint

if TYPE_CHECKING:
    from stratalog.directory.recovery.result import RecoveryReport
    from stratalog.directory.refusal import StartupRefusal


class FormattedPartition(NamedTuple):
    """A partition of a topic. `directory` is None if no log directory has it: the broker creates it.

    `leader_epoch` is the epoch before the first one that the controller gives.
    """

    partition: int
    directory: str | None
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedTopic:
    """A topic; `is_new_id`: no partition had an id yet."""

    name: str
    topic_id: UUID | None
    is_new_id: bool
    settings: dict[str, str]
    partitions: tuple[FormattedPartition, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """The partitions that the broker creates."""
        return tuple(found.partition for found in self.partitions if found.directory is None)


class FormattedDirectory(NamedTuple):
    """A directory, its id, and whether it has the metadata; `is_log_directory` if it is one of log.dirs."""

    path: str
    directory_id: str | None
    has_metadata: bool
    is_log_directory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatResult:
    """The whole result. `is_plan`: it was a dry run, in which ids that a run would generate are None.

    `endpoints` are those of the controller, if the metadata names the voters. Otherwise it is empty, and
    server.properties has to name the voters. `was_finished`: an earlier run, which was interrupted at its
    end, had done everything except removing its notes. `recovery` is what was done to take over logs of
    `open_log`.
    """

    cluster_id: str | None
    node_id: int
    release: str
    endpoints: tuple[Endpoint, ...]
    directories: tuple[FormattedDirectory, ...]
    topics: tuple[FormattedTopic, ...]
    notes: tuple[str, ...] = ()
    refusals: tuple[StartupRefusal, ...] = ()
    recovery: RecoveryReport | None = None
    is_plan: bool = False
    was_finished: bool = False
