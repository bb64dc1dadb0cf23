"""Whether the indexes of a segment can be those of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import CorruptIndexError
from stratalog.segment.sanity import sanity_check
from stratalog.segment.segment import LogSegment
from stratalog.segment.txn_index import AbortedTxn
from tests.segment.making import append, records, reopened


def test_a_sound_segment_passes_its_check_open_and_closed(segment: LogSegment) -> None:
    for offset in range(40, 60):
        append(segment, records(offset, "hello"))
    segment.append_aborted(AbortedTxn(1, 40, 41, 42))

    sanity_check(segment.reader)
    sanity_check(reopened(segment, growable=False).reader)
    segment.close()
    sanity_check(reopened(segment, growable=False).reader)


def test_a_log_without_its_offset_index_does_not_pass(segment: LogSegment) -> None:
    append(segment, records(40, "hello"), records(41, "hello"))
    segment.close()
    Path(segment.reader.offset_index.path).unlink()

    with pytest.raises(CorruptIndexError, match="missing"):
        sanity_check(reopened(segment, growable=False).reader)


def test_an_empty_segment_needs_no_index(segment: LogSegment) -> None:
    sanity_check(reopened(segment, growable=False).reader)


@pytest.mark.parametrize("entry", ["0000000100000007", "0000000000000045", "0000000500100000"])
def test_an_index_of_another_log_does_not_pass(segment: LogSegment, entry: str) -> None:
    append(segment, records(40, "hello"), records(41, "hello"))
    segment.close()
    Path(segment.reader.offset_index.path).write_bytes(bytes.fromhex(entry))

    with pytest.raises(CorruptIndexError):
        sanity_check(reopened(segment, growable=False).reader)
