"""The state that the parts of one log share."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.files.names import TopicPartition
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.folder import LogFolder
from stratalog.log.guard import LogGuard
from stratalog.log.marks import LogMarks
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.scheduler import Scheduler
from stratalog.log.segments import LogSegments
from stratalog.segment.segment import LogSegment


class LogParts(NamedTuple):
    """The state of one log, as `loader.load` found it; it is changed only under a lock of the guard.

    A tuple, because creating one takes a tenth of the time of a dataclass, and a hundred thousand logs may be
    opened.
    """

    topic_partition: TopicPartition
    guard: LogGuard
    folder: LogFolder
    marks: LogMarks
    segments: LogSegments[LogSegment]
    epochs: LeaderEpochFileCache
    producers: ProducerStateManager
    scheduler: Scheduler
    clock: Clock
