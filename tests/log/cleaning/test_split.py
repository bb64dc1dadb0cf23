"""A segment whose offsets are too far apart: it is split when it is cleaned, and loses nothing in that.

Brokers before 2.0 left such segments. Kafka: testSegmentWithOffsetOverflow, testDegenerateSegmentSplit
"""

from __future__ import annotations

import pytest

from stratalog.errors import CorruptRecordError, SegmentOffsetOverflowError
from stratalog.files.names import FileState
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.split import split_segment
from stratalog.records.build import Record, build_batch
from stratalog.records.compression import Codec, compress
from stratalog.segment.txn_index import AbortedTxn
from tests import naive
from tests.log.cleaning.dirty import NOW, Dirty

FAR = 2**31 + 5
END = 2 * FAR


def test_it_is_split_and_cleaned_in_one_go() -> None:
    dirty = overflowed(batch(FAR, b"a", b"2"), batch(FAR + 1, b"c", b"1"))

    result = dirty.log.clean(0, END, OffsetMap(2400))

    assert result.end_offset == END
    assert dirty.pairs == [(1, b"b", b"1"), (FAR, b"a", b"2"), (FAR + 1, b"c", b"1"), (END, b"z", b"1")]
    assert dirty.log.segments.base_offsets == (0, FAR, END)
    dirty.log = dirty.machine.reopen(dirty.log)
    assert dirty.offsets == [1, FAR, FAR + 1, END]
    assert dirty.log.read(FAR - 1, 10_000).records == batch(FAR, b"a", b"2") + batch(FAR + 1, b"c", b"1")


def test_offsets_that_are_not_too_far_apart_make_one_piece() -> None:
    dirty = overflowed(batch(2**31 - 1, b"a", b"2"))

    dirty.log.clean(0, END, OffsetMap(2400))

    assert dirty.log.segments.base_offsets == (0, END)


def test_a_first_batch_that_is_too_far_leaves_an_empty_segment_behind() -> None:
    dirty = Dirty()
    plant(dirty, batch(FAR, b"a", b"1"), batch(FAR + 2**31, b"b", b"1"))

    dirty.log.clean(0, END, OffsetMap(2400))

    assert dirty.offsets == [FAR, FAR + 2**31, END]
    assert dirty.log.segments.base_offsets == (0, FAR, FAR + 2**31, END)


def test_pieces_are_the_bytes_of_the_segment_and_as_old() -> None:
    dirty = overflowed(batch(FAR, b"a", b"2"), batch(FAR + 2**31, b"c", b"1"))
    segment = dirty.log.segments.first
    dirty.wait(5000)

    pieces = split_segment(dirty.machine.disk, segment.reader, dirty.machine.clock)

    assert [piece.base_offset for piece in pieces] == [0, FAR, FAR + 2**31]
    data = b"".join(bytes(piece.reader.read_bytes(0, piece.size)) for piece in pieces)
    assert data == bytes(segment.reader.read_bytes(0, segment.size))
    assert {piece.reader.modified_ms for piece in pieces} == {segment.reader.modified_ms}


def test_an_old_compressed_message_begins_at_its_first_record() -> None:
    inner = [naive.Record(i, NOW, b"%d" % i, b"v") for i in range(3)]
    whole = b"".join(naive.encode_message(record, magic=1) for record in inner)
    wrapper = naive.Record(FAR + 2, NOW, None, compress(Codec.GZIP, whole, magic=1))
    dirty = overflowed(naive.encode_message(wrapper, magic=1, attributes=Codec.GZIP))

    pieces = split_segment(dirty.machine.disk, dirty.log.segments.first.reader, dirty.machine.clock)

    assert [piece.base_offset for piece in pieces] == [0, FAR]


def test_aborted_transactions_go_with_their_markers() -> None:
    dirty = overflowed(batch(FAR, b"a", b"2"))
    segment = dirty.log.segments.first
    entries = [AbortedTxn(1, 0, 1, 0), AbortedTxn(2, 1, FAR, 1)]
    for entry in entries:
        segment.append_aborted(entry)

    pieces = split_segment(dirty.machine.disk, segment.reader, dirty.machine.clock)

    assert [piece.reader.txn_index.all_aborted() for piece in pieces] == [entries[:1], entries[1:]]


def test_a_segment_that_cannot_be_read_is_left_as_it_is() -> None:
    dirty = overflowed(batch(FAR, b"a", b"2"))
    segment = dirty.log.segments.first
    dirty.machine.disk.write_at(segment.log_path, b"\xff", segment.size - 1)

    with pytest.raises(CorruptRecordError):
        split_segment(dirty.machine.disk, segment.reader, dirty.machine.clock)

    assert dirty.machine.files(FileState.CLEANED.value) == []


def test_offsets_that_lie_are_no_reason_to_split_again_and_again() -> None:
    """Two segments that fit one by their names; the second reaches further than the next one's base."""
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.roll()
    plant(dirty, batch(FAR, b"a", b"1"), end=10)
    names = dirty.machine.files()

    with pytest.raises(SegmentOffsetOverflowError):
        dirty.log.clean(0, 10, OffsetMap(2400))

    assert dirty.machine.files() == names


def overflowed(*batches: bytes) -> Dirty:
    """A segment at 0 with keys a and b, followed by these batches; the active segment begins at END."""
    dirty = Dirty()
    dirty.put((b"a", b"1"), (b"b", b"1"))
    plant(dirty, *batches)
    return dirty


def plant(dirty: Dirty, *batches: bytes, end: int = END) -> None:
    """Write batches after the log's end, whatever their offsets are; the next segment has a record."""
    segment = dirty.log.segments.active
    for data in batches:
        dirty.machine.disk.write_at(segment.log_path, data, segment.size)
        segment.reader.size += len(data)
    dirty.log.roll(end)
    dirty.put((b"z", b"1"), offset=end)


def batch(offset: int, key: bytes, value: bytes) -> bytes:
    return build_batch([Record(offset, NOW, key, value)])
