"""Producer state from the newest usable snapshot and the batches after it.

Kafka: UnifiedLog.rebuildProducerState
"""

from __future__ import annotations

from stratalog.log.producers.analysis import replay_batches
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.segments import SegmentReaders
from stratalog.segment.segment_reader import SegmentReader


def rebuild_producer_state(
    producers: ProducerStateManager,
    segments: SegmentReaders,
    *,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    after_clean_shutdown: bool = False,
) -> None:
    """Bring the state to `end_offset` and write a snapshot there.

    A replay also writes one where it begins the last two segments. A cleanly closed log without any snapshot
    comes from a Kafka release that had no snapshots: nothing is replayed, and empty snapshots are written.
    """
    snapshot_offsets = {*segments.base_offsets[-2:], end_offset}
    if after_clean_shutdown and producers.snapshots.latest is None:
        for offset in sorted(snapshot_offsets):
            producers.update_map_end_offset(offset)
            producers.take_snapshot()
        return
    was_empty = producers.is_empty and producers.map_end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset, now_ms)
    if end_offset > producers.map_end_offset and not was_empty:
        for segment in segments.range(producers.map_end_offset, end_offset):
            start_offset = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.update_map_end_offset(start_offset)
            if segment.base_offset in snapshot_offsets:
                producers.take_snapshot()
            replay_segment(producers, segment, start_offset, end_offset)
    producers.update_map_end_offset(end_offset)
    producers.take_snapshot()


def replay_segment(
    producers: ProducerStateManager, segment: SegmentReader, start_offset: int, end_offset: int
) -> None:
    """Apply the batches of one segment, from one offset to another, to the state of producers."""
    start = segment.translate_offset(start_offset)
    if start is None:
        return
    end = segment.translate_offset(end_offset)
    for chunk in segment.batches(start.position, None if end is None else end.position):
        replay_batches(producers, chunk.data, chunk.headers)
