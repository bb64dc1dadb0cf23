"""Begins new segments. Kafka: UnifiedLog.roll"""

from __future__ import annotations

from stratalog.errors import DiskError, UsageError
from stratalog.files.names import FileKind, segment_file_name
from stratalog.files.paths import join_path
from stratalog.log.flusher import Flusher
from stratalog.log.parts import LogParts
from stratalog.segment.segment import LogSegment


class Roller:
    """Closes the active segment and begins the next one, under the log's lock.

    File names and memory agree when a roll ends, even if Ctrl-C has interrupted it: then the roll is finished
    first, and the interrupt is raised afterwards. The producers' snapshot at the base of a segment is written
    before the segment gets a record.
    """

    __slots__ = (
        "_flusher",
        "_folder",
        "_guard",
        "_marks",
        "_producers",
        "_scheduler",
        "_segments",
        "_topic_partition",
    )

    def __init__(self, parts: LogParts, flusher: Flusher) -> None:
        self._topic_partition, self._scheduler = parts.topic_partition, parts.scheduler
        self._guard, self._folder, self._marks = parts.guard, parts.folder, parts.marks
        self._segments, self._producers, self._flusher = parts.segments, parts.producers, flusher

    def roll(self, expected_base: int = 0) -> LogSegment:
        """Begin a new segment at the log's end, or at `expected_base` if that is above it."""
        base_offset = max(expected_base, self._marks.end.offset)
        previous = self._segments.active
        if base_offset in self._segments:
            if base_offset != previous.base_offset or previous.size:
                raise UsageError(f"{self._topic_partition}: segment {base_offset} has records in it.")
            if self._marks.follows_end and not previous.is_index_full:
                # The active segment is empty, and this is the only copy of the log: nothing is done. Kafka
                # deletes the segment and creates it again. A power cut in between would lose its name, and
                # with it the log's end. Replicas know the end, but an only copy would reuse offsets.
                return previous
        elif base_offset < previous.base_offset:
            raise UsageError(
                f"{self._topic_partition}: a segment cannot begin at offset {base_offset}, before the active "
                f"segment, which begins at {previous.base_offset}."
            )
        try:
            return self._begin_segment(base_offset, previous)
        except DiskError:
            raise
        except BaseException as error:
            self._finish(base_offset, previous, error)
            raise

    def _begin_segment(self, base_offset: int, previous: LogSegment) -> LogSegment:
        segment = self._segments.active
        if segment is previous:  # otherwise Ctrl-C came after the new one was created
            if base_offset == previous.base_offset:
                # An empty segment is created again: with replicas always, as in Kafka; without, only if its
                # indexes are full.
                if not previous.suffix:
                    self._folder.delete([previous], "it is empty and is rolled again", with_snapshots=False)
            else:
                previous.on_become_inactive()
            if self._marks.follows_end:
                self._make_durable(previous)
            segment = self._folder.create_segment(base_offset)
            self._segments.add(segment)
        self._marks.place_end(base_offset)
        self._producers.update_map_end_offset(base_offset)
        self._producers.take_snapshot(sync=False)
        self._scheduler.schedule("flush-log", lambda: self._flusher.flush_rolled(base_offset))
        return segment

    def _make_durable(self, previous: LogSegment) -> None:
        """For the only copy of a log: the closed segment is on the device before the next one is begun.

        A power cut may take the end of a log. If a segment survives although the end of the previous segment
        is lost, there is a hole: later records without earlier ones. With replicas, as in Kafka, the flush in
        the background is enough.
        """
        previous.sync_log()
        self._folder.sync_names([previous])

    def _finish(self, base_offset: int, previous: LogSegment, error: BaseException) -> None:
        """Finish a roll that Ctrl-C has interrupted, so that file names and memory agree again.

        It is not known how far the roll got: each step is repeated, and nothing that is cached about changed
        files is used. There is no way back, because the indexes of the old segment may already be trimmed.
        """
        folder = self._folder
        try:
            if self._segments.active is previous:
                previous.forget_indexes()
                if base_offset != previous.base_offset or previous.suffix:
                    folder.disk.delete(join_path(folder.path, segment_file_name(base_offset, FileKind.LOG)))
            folder.note_change()
            self._begin_segment(base_offset, previous)
        except DiskError as refusal:
            self._guard.failure = refusal
        except BaseException:
            self._guard.fail_over(error)
            raise
