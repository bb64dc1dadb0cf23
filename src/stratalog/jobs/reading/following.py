"""Streams log directories: looks at the partitions, decides how far the next trigger goes, plans its tasks.

`offsets.py` has the decisions; this module reads the directories. The views of the partitions are kept
between triggers, so looking again reads only a listing and the end of the newest segment. What looks like
data loss is checked again before it is reported: while a broker moves a partition to another of its
directories, there is a moment in which neither folder has the partition's name.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from stratalog.clock import Clock, system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.views import open_view
from stratalog.errors import DiskError, OffsetOutOfRangeError
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.ends import Ends, check_complete, ends_of, range_of
from stratalog.jobs.reading.offsets import (
    Loss,
    OffsetRange,
    Standing,
    StreamOffset,
    advanced,
    at_offsets,
    begins,
    count_between,
    is_to_wait,
    ranges,
)
from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission, ignore_omission
from stratalog.jobs.reading.options import ReadOptions, listed
from stratalog.jobs.reading.plan import Piece, plan_range, tasks_of
from stratalog.jobs.reading.split import ReadTask, topic_id_of
from stratalog.log.api.view import LogView

logger = logging.getLogger(__name__)

_MORE_LOOKS = 5  # before records are reported as lost
_BETWEEN_LOOKS_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """A partition as it was when it was last looked at."""

    view: LogView
    ends: Ends
    standing: Standing


class Follower:
    """Follows the partitions that the options select. It is used by one thread."""

    def __init__(
        self,
        options: ReadOptions,
        *,
        disk: DiskReader | None = None,
        clock: Clock = system_clock,
        wait: Callable[[float], None] = time.sleep,
        cores: int | None = None,
        on_omission: OnOmission = ignore_omission,
    ) -> None:
        self._options, self._cores, self._on_omission = options, cores, on_omission
        self._disk, self._clock, self._wait = disk or reader_for(*options.paths), clock, wait
        self._views: dict[str, LogView] = {}  # by directory
        self._looked: dict[TopicPartition, _Looked] = {}
        self._last_end: dict[TopicPartition, Standing] | None = None
        self._told: set[tuple[TopicPartition, int]] = set()
        self._last_trigger_ms: int | None = None

    def initial(self) -> StreamOffset:
        """Where a stream without a checkpoint begins. UsageError for a topic that does not exist."""
        find_partitions(self._disk, self._options)
        if self._last_end is None:
            self._look()
        # The partitions of this look are checked, not those found above: partitions may come and go, and the
        # offsets below are for these.
        check_complete(self._options.starting, list(self._looked))
        offsets = {
            partition: range_of(looked.view, looked.ends, self._options, self._on_omission)[0]
            for partition, looked in self._looked.items()
        }
        return at_offsets(offsets, self._standings())

    def end_here(self) -> None:
        """Never go past the current ends of the partitions. Spark: Trigger.AvailableNow."""
        self._look()
        self._last_end = self._standings()

    def advance(self, start: StreamOffset, *, at_most: int | None = None, at_least: int = 0) -> StreamOffset:
        """Where the trigger that begins at `start` ends; `start` itself if there is nothing to read yet.

        OffsetOutOfRangeError for lost data, unless failOnDataLoss is false.
        """
        if self._last_end is None:
            self._look()
        begin, losses = begins(start, self._now())
        for _ in range(_MORE_LOOKS):
            if not losses:
                break
            self._wait(_BETWEEN_LOOKS_S)
            self._look_again()
            begin, losses = begins(start, self._now())
        self._lose(losses)
        now = self._now()
        # A stream with a fixed end does not wait: Spark would treat a wait as the end of the stream.
        if self._last_end is None and self._is_to_wait(count_between(begin, now), at_least):
            return start
        return advanced(start, begin, now, at_most=at_most)

    def latest(self) -> StreamOffset:
        """The partitions' ends as last seen, from which Spark shows how far behind a stream is."""
        now = self._standings()
        return at_offsets({partition: standing.end_offset for partition, standing in now.items()}, now)

    def plan(self, start: StreamOffset, end: StreamOffset) -> list[ReadTask]:
        """The tasks that read from one offset of the stream to another: the same records each time.

        OffsetOutOfRangeError for lost data, unless failOnDataLoss is false.
        """
        # The look that decided `end` is reused, unless this trigger was planned before a restart.
        if not self._looked:
            self._look()
        for _ in range(_MORE_LOOKS):
            found, losses = ranges(start, end, self._standings())
            pieces = None if losses else self._pieces(found)
            if pieces is not None:
                return tasks_of(pieces, self._options, cores=self._cores)
            self._wait(_BETWEEN_LOOKS_S)
            self._look()
        found, losses = ranges(start, end, self._standings())
        self._lose(losses)
        return tasks_of(self._pieces(found) or [], self._options, cores=self._cores)

    def close(self) -> None:
        """Free memory and close open files."""
        for view in self._views.values():
            view.close()
        self._views.clear()
        self._looked.clear()

    def _now(self) -> dict[TopicPartition, Standing]:
        """Where the stream may read to: the ends seen last, or its fixed end."""
        return self._standings() if self._last_end is None else self._last_end

    def _standings(self) -> dict[TopicPartition, Standing]:
        return {partition: looked.standing for partition, looked in self._looked.items()}

    def _look_again(self) -> None:
        if self._last_end is None:
            self._look()
        else:
            self.end_here()

    def _look(self) -> None:
        """Look at all partitions."""
        views, self._views, self._looked = self._views, {}, {}
        for found in find_partitions(self._disk, self._options, may_lack=True):
            try:
                self._looked[found.topic_partition] = self._look_at(found, views.pop(found.directory, None))
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
                logger.info("%s disappeared while it was read: %s", found.topic_partition, error)
        for gone in views.values():
            gone.close()

    def _look_at(self, found: FoundPartition, view: LogView | None) -> _Looked:
        if view is None:
            view = open_view(self._disk, self._clock, found)
        else:
            view.refresh(found.log_start_offset, found.left)
        self._views[found.directory] = view
        ends = ends_of(
            view,
            read_committed=self._options.read_committed,
            on_corruption=self._options.on_corruption,
        )
        standing = Standing(
            start_offset=ends.start_offset,
            end_offset=ends.end_offset,
            valid_end_offset=ends.valid.offset,
            topic_id=topic_id_of(self._disk, found.directory),
        )
        return _Looked(view=view, ends=ends, standing=standing)

    def _pieces(self, found: list[OffsetRange]) -> list[Piece] | None:
        """The pieces to read the ranges from; None if a file disappeared meanwhile."""
        pieces: list[Piece] = []
        try:
            for partition, start, end in found:
                looked = self._looked[partition]
                pieces += plan_range(self._disk, looked.view, looked.ends, start, end)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return None
        return pieces

    def _is_to_wait(self, count: int, at_least: int) -> bool:
        now_ms, last_ms = self._clock(), self._last_trigger_ms
        if last_ms is not None and is_to_wait(
            count,
            at_least=at_least,
            waited_ms=now_ms - last_ms,
            max_delay_ms=self._options.max_trigger_delay_ms,
        ):
            return True
        self._last_trigger_ms = now_ms
        return False

    def _lose(self, losses: list[Loss]) -> None:
        if losses and self._options.fail_on_data_loss:
            first, others = losses[0], [loss.topic_partition for loss in losses[1:]]
            more = f" The same is true of {listed(others)}." if others else ""
            raise OffsetOutOfRangeError(
                f"{first.topic_partition} in {listed(self._options.paths)}: {first.reason} Records that the "
                f"stream has not read are gone.{more} To continue with the records that exist, restart the "
                "query with failOnDataLoss=false.",
                offset=first.offset,
                valid=first.valid,
            )
        for loss in losses:
            if (loss.topic_partition, loss.offset) not in self._told:
                logger.warning("%s: records are lost: %s", loss.topic_partition, loss.reason)
                self._on_omission(_omitted(loss))
        self._told = {(loss.topic_partition, loss.offset) for loss in losses}


def _omitted(loss: Loss) -> Omission:
    """What a stream leaves out after a loss. Only records deleted at the start of a log can be counted."""
    start, _ = loss.valid
    return Omission(
        topic=loss.topic_partition.topic,
        partition=loss.topic_partition.partition,
        kind=OmissionKind.LOSS,
        first_offset=loss.offset,
        end_offset=start if start > loss.offset else None,
        why=loss.reason,
    )
