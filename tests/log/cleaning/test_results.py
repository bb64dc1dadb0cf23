"""The age of a new segment, and counts that are taken back."""

from __future__ import annotations

from dataclasses import replace

from stratalog.log.cleaning.results import CleanedSegment, CleanerStats


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    assert CleanedSegment(0, 10, -1, 7).largest_timestamp == 7
    assert CleanedSegment(0, 10, 5, 7).largest_timestamp == 5


def test_what_was_counted_since_is_forgotten() -> None:
    stats = CleanerStats(map_bytes_read=3, records_read=4)
    before = replace(stats)
    stats.records_read += 10
    stats.bytes_written += 10

    stats.go_back_to(before)

    assert stats == before == CleanerStats(map_bytes_read=3, records_read=4)
