"""Kafka's scenarios of one cleaning: keys, tombstones, bounds, maps that are too small, damage."""

from __future__ import annotations

import random

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.files.names import FileKind, FileState, parse_segment_file
from stratalog.log.cleaning import OffsetMap, clean_log
from stratalog.records.batch import RECORD_BATCH_OVERHEAD
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from stratalog.records.kernels.offset_map import REACH
from tests.log.cleaning.dirty import NOW, Dirty


def test_of_each_key_the_last_record_stays_at_its_offset() -> None:
    dirty = Dirty()
    for value in (b"1", b"2"):
        dirty.put((b"a", value), (b"b", value))
        dirty.put((b"c", value))
        dirty.roll()

    dirty.clean()

    assert dirty.pairs == [(3, b"a", b"2"), (4, b"b", b"2"), (5, b"c", b"2")]


def test_statistics_are_those_of_what_was_read_and_written() -> None:
    dirty = Dirty()
    for value in (b"1", b"2", b"3"):
        dirty.put((b"a", value), (b"b", value))
    dirty.put((b"c", b"1"))
    dirty.roll()
    size = dirty.log.segments.first.size

    stats = dirty.clean().stats

    assert (stats.map_bytes_read, stats.map_records_read) == (size, 7)
    assert (stats.bytes_read, stats.records_read, stats.records_written) == (size, 7, 3)
    assert stats.bytes_written == dirty.log.segments.first.size


def test_a_dry_run_counts_the_same_and_changes_nothing() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.put((b"a", b"2"))
    dirty.roll()
    names = dirty.machine.files()

    planned = dirty.clean(is_dry=True)

    assert dirty.machine.files() == names
    assert dirty.offsets == [0, 1]
    assert dirty.clean() == planned


def test_what_is_behind_the_bound_is_left_alone() -> None:
    dirty = Dirty()
    for value in (b"1", b"2", b"3"):
        dirty.put((b"a", value))
        dirty.roll()

    dirty.clean(end=2)

    assert dirty.offsets == [1, 2]
    assert dirty.checkpoint == 2


def test_a_map_that_is_used_again_knows_nothing_of_the_log_before() -> None:
    """Otherwise records that are clean here, and were written to another log later, would be lost."""
    other, dirty = Dirty(), Dirty()
    for number in range(5):
        other.put((b"clean", b"%d" % number))
    other.roll()
    dirty.put((b"clean", b"kept"))
    dirty.roll()
    dirty.clean()
    dirty.put((b"new", b"kept too"))
    dirty.roll()
    offset_map = OffsetMap(24 * 100)

    for each in (other, dirty):
        clean_log(each.bounds(), offset_map, now_ms=NOW, replace_segments=each.replace)

    assert (other.offsets, dirty.offsets) == ([4], [0, 1])


def test_nothing_dirty_is_nothing_to_do() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.roll()
    dirty.clean()

    again = dirty.clean()

    assert (again.end_offset, again.groups) == (1, ())


def test_a_second_cleaning_at_the_same_clock_changes_no_byte() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"), (b"b", None), (b"a", b"2"))
    dirty.roll()
    dirty.clean()
    before = dirty.log.segments.first.reader.read_bytes(0, 10_000)
    dirty.checkpoint = 0

    dirty.clean()

    assert dirty.log.segments.first.reader.read_bytes(0, 10_000) == before


class TestMapThatIsTooSmall:
    """KAFKA-3587, KAFKA-2235: a full map ends the round, and is not an error."""

    def test_each_round_gets_as_far_as_its_map(self) -> None:
        dirty = Dirty()
        dirty.put((b"0", b"0"), (b"1", b"1"), (b"0", b"2"), (b"1", b"3"), (b"2", b"4"))
        dirty.roll()

        rounds = []
        while dirty.checkpoint < 5:
            dirty.clean(keys=1)
            rounds.append((dirty.checkpoint, dirty.offsets))

        # One key a round. Kafka: testPartialSegmentClean
        assert rounds == [
            (1, [0, 1, 2, 3, 4]),
            (2, [0, 1, 2, 3, 4]),
            (3, [1, 2, 3, 4]),
            (4, [2, 3, 4]),
            (5, [2, 3, 4]),
        ]

    def test_many_rounds_leave_the_records_of_one(self) -> None:
        small, large = Dirty(internal_segment_bytes=400), Dirty(internal_segment_bytes=400)
        for dirty in (small, large):
            for number in range(60):
                dirty.put((b"%d" % (number % 17), b"%d" % number))
            dirty.roll()
        end = small.log.log_end_offset

        while small.checkpoint < end:
            small.clean(keys=3)
        large.clean()

        assert small.pairs == large.pairs


class TestEndOfTheLog:
    def test_the_last_batch_stays_empty_so_that_the_end_is_known(self) -> None:
        """KAFKA-17076"""
        dirty = Dirty()
        dirty.put((b"a", b"1"))
        dirty.put((None, b"x"))
        dirty.roll()

        dirty.clean()

        last = dirty.headers()[-1]
        assert (last.base_offset, last.records_count, last.size) == (1, 0, RECORD_BATCH_OVERHEAD)
        assert dirty.log.segments.first.reader.read_next_offset() == 2

    def test_holes_between_offsets_do_not_stop_the_checkpoint(self) -> None:
        """KAFKA-8764: where the last offsets of a segment are gone, the same part was cleaned for ever."""
        dirty = Dirty()
        dirty.put((b"a", b"1"))
        dirty.roll()
        dirty.log.roll(50)
        dirty.put((b"a", b"2"), offset=60)
        dirty.roll()

        dirty.clean(end=50)

        assert dirty.checkpoint == 50


class TestWhatCannotBeRead:
    def test_a_wrong_checksum_stops_it_before_anything_changes(self) -> None:
        dirty = Dirty()
        dirty.put((b"a", b"1"))
        dirty.put((b"a", b"2"))
        dirty.roll()
        path = dirty.log.segments.first.log_path
        # The last byte of a value: the record can be decoded still.
        dirty.machine.disk.write_at(path, b"\xff", dirty.log.segments.first.size - 2)
        names = dirty.machine.files()

        with pytest.raises(CorruptRecordError, match="CRC-32C") as caught:
            dirty.clean()

        assert caught.value.path == path
        assert caught.value.position == dirty.log.segments.first.size // 2
        assert dirty.machine.files() == names

    def test_a_length_beyond_the_file_is_damage_and_no_torn_tail(self) -> None:
        dirty = Dirty()
        dirty.put((b"a", b"1"))
        dirty.roll()
        dirty.machine.disk.write_at(dirty.log.segments.first.log_path, (2**20).to_bytes(4, "big"), 8)

        with pytest.raises(CorruptRecordError):
            dirty.clean()

    def test_a_magic_of_no_format_is_damage(self) -> None:
        dirty = Dirty()
        dirty.put((b"a", b"1"))
        dirty.roll()
        dirty.machine.disk.write_at(dirty.log.segments.first.log_path, b"\x09", 16)

        with pytest.raises(CorruptRecordError):
            dirty.clean()


def test_an_abort_leaves_the_log_as_it_was() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.put((b"a", b"2"))
    dirty.roll()
    names, calls = dirty.machine.files(), 0

    def check_done() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # the first run of the second pass
            raise InterruptedError

    with pytest.raises(InterruptedError):
        dirty.clean(check_done=check_done)

    assert dirty.machine.files() == names
    assert dirty.offsets == [0, 1]


def test_a_throttle_is_told_of_all_that_is_read_and_written() -> None:
    dirty = Dirty()
    for value in (b"1", b"2", b"3"):
        dirty.put((b"a", value))
    dirty.roll()
    before, told = dirty.log.size, []

    dirty.clean(throttle=told.append)

    # Read for the map, read to be filtered, written.
    assert sum(told) == 2 * before + dirty.log.size
    assert 0 < dirty.log.size < before


def test_a_preallocated_segment_is_trimmed() -> None:
    """KAFKA-5431: zeros after the last batch of a cleaned file."""
    dirty = Dirty(preallocate="true", internal_segment_bytes=4096)
    dirty.put((b"a", b"1"))
    dirty.roll()

    dirty.clean()

    segment = dirty.log.segments.first
    assert dirty.machine.disk.size(segment.log_path) == segment.size > 0


def test_the_time_of_change_is_the_last_originals() -> None:
    dirty = Dirty()
    for value in (b"1", b"2"):
        dirty.put((b"a", value))
        dirty.roll()
    times = [segment.reader.modified_ms for segment in dirty.log.segments]
    dirty.wait(10_000)

    dirty.clean()

    assert dirty.log.segments.first.reader.modified_ms == times[1]


def test_left_overs_of_a_cleaning_that_failed_are_written_anew() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.roll()
    path = dirty.log.segments.first.log_path + FileState.CLEANED.value
    dirty.machine.disk.create(path)
    dirty.machine.disk.write_at(path, b"half a batch", 0)

    dirty.clean()

    assert dirty.offsets == [0]
    found = [parse_segment_file(name) for name in dirty.machine.files()]
    assert not [file for file in found if file and file.state is FileState.CLEANED]
    assert [file.offset for file in found if file and file[1:] == (FileKind.LOG, FileState.LIVE)] == [0, 1]


class ByHashOnly(OffsetMap):
    """A map that notes no offsets, so that every record is looked up by its key's hash."""

    def note_offsets(self, start_offset: int, end_offset: int) -> None:
        pass


def make_dirty(seed: int) -> Dirty:
    """Two stretches of records, the first of them clean: all codecs, tombstones, no keys, transactions."""
    rng = random.Random(seed)
    dirty = Dirty(internal_segment_bytes=rng.choice([600, 3000]))
    for is_clean in (True, False):
        for _ in range(40):
            pairs = [
                (rng.choice([b"%d" % rng.randrange(30), b"%d" % rng.randrange(30), None]), rng.randbytes(9))
                for _ in range(rng.randrange(1, 6))
            ]
            pairs[0] = (pairs[0][0], None)
            producer_id = rng.randrange(3)
            match rng.randrange(4):
                case 0:
                    dirty.produce(producer_id, *pairs)
                case 1:
                    dirty.produce(3 + producer_id, *pairs, transactional=True)
                    if rng.random() < 0.7:
                        kind = rng.choice([ControlType.ABORT, ControlType.COMMIT])
                        dirty.end(3 + producer_id, kind)
                case _:
                    dirty.put(*pairs, codec=rng.choice(list(Codec)))
        dirty.roll()
        if is_clean:
            dirty.clean()
    dirty.wait(rng.choice([0, 2 * dirty.log.config.delete_retention_ms]))
    return dirty


@pytest.mark.parametrize("keys", [1000, 12])
@pytest.mark.parametrize("seed", range(8))
def test_noted_offsets_and_hashes_leave_the_same_bytes(seed: int, keys: int) -> None:
    left = []
    for kind in (OffsetMap, ByHashOnly):
        dirty = make_dirty(seed)
        result = clean_log(
            dirty.bounds(), kind(24 * keys), now_ms=dirty.machine.clock(), replace_segments=dirty.replace
        )
        left.append(
            (result, [each.reader.read_bytes(0, each.size) for each in dirty.log.segments], dirty.offsets)
        )

    assert left[0] == left[1]
    assert left[0][0].stats.records_written < left[0][0].stats.records_read


def test_offsets_too_far_apart_for_one_map_take_another_round() -> None:
    dirty = Dirty()
    for offset in (0, 1, 3 * REACH, 3 * REACH + 1):
        dirty.put((b"a", b"%d" % offset), offset=offset)
        dirty.roll()

    ends = [dirty.clean().end_offset, dirty.clean().end_offset]

    assert ends == [3 * REACH, 3 * REACH + 2]
    assert dirty.offsets == [3 * REACH + 1]
