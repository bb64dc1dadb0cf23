"""A dirty part that is read backwards leaves the same files as one that is read forwards."""

from __future__ import annotations

import errno
import io
import random
from collections.abc import Callable
from typing import BinaryIO

import pytest

from stratalog.errors import CorruptRecordError, DiskError
from stratalog.files.entries import ReadFile
from stratalog.log.cleaning import CleanResult, OffsetMap, clean_log
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from tests import profile
from tests.log.cleaning.dirty import Dirty, Pair
from tests.log.cleaning.small_pieces import Attempts, SmallPieces, forwards_only


@pytest.fixture(autouse=True)
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    """Small logs are read as large ones are."""
    SmallPieces(monkeypatch)
    return Attempts(monkeypatch)


def make_dirty(seed: int) -> Dirty:
    """Two stretches, the first of them clean: codecs, tombstones, no keys, producers; few or many entries."""
    rng = random.Random(seed)
    dirty = Dirty(
        internal_segment_bytes=rng.choice([600, 3000, 100_000]),
        index_interval_bytes=rng.choice([1, 200, 4096]),
    )
    codecs = rng.choice([[Codec.NONE], [Codec.ZSTD], list(Codec)])
    for is_clean in (True, False):
        for _ in range(60):
            pairs: list[Pair] = [
                (rng.choice([b"%d" % rng.randrange(40), b"%d" % rng.randrange(40), None]), rng.randbytes(9))
                for _ in range(rng.randrange(1, 6))
            ]
            if rng.random() < 0.3:
                pairs[0] = (pairs[0][0], None)
            if rng.random() < 0.3:
                dirty.produce(rng.randrange(3), *pairs)
            else:
                dirty.put(*pairs, codec=rng.choice(codecs))
        if not is_clean or rng.random() < 0.5:  # otherwise one segment has clean and dirty records
            dirty.roll()
        if is_clean and rng.random() < 0.8:
            dirty.clean(end=dirty.log.segments.active.base_offset)
    dirty.wait(rng.choice([0, 2 * dirty.log.config.delete_retention_ms]))
    return dirty


def cleaned(
    dirty: Dirty, offset_map: OffsetMap, counted: list[int] | None = None
) -> tuple[CleanResult, dict[str, bytes]]:
    """The result, and all files."""
    result = clean_log(
        dirty.bounds(),
        offset_map,
        now_ms=dirty.machine.clock(),
        replace_segments=dirty.replace,
        on_read=[].append if counted is None else counted.append,
    )
    return result, dirty.machine.disk.contents()


@pytest.mark.parametrize("seed", range(profile.examples(120)))
def test_both_directions_leave_the_same_bytes(
    seed: int, attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, sizes = [], []
    for is_backward in (True, False):
        counted: list[int] = []
        if not is_backward:
            assert attempts.successes[-1:] == [True]
            forwards_only(monkeypatch)
        left.append(cleaned(make_dirty(seed), OffsetMap(24 * 1000), counted))
        sizes.append(sum(counted))

    assert left[0] == left[1]
    assert sizes[0] == sizes[1]
    assert 0 < left[0][0].stats.records_written < left[0][0].stats.records_read


def test_what_fits_the_spool_is_not_decoded_again(attempts: Attempts) -> None:
    """The spool may be as large as a segment, here 600 bytes: the newest segments fit."""
    dirty = Dirty(internal_segment_bytes=600)
    for number in range(40):
        dirty.put((b"%d" % number, bytes(50)))
    dirty.roll()
    segments_count = len(dirty.log.segments) - 1

    dirty.clean()

    (found,) = attempts.results
    assert found is not None
    assert segments_count > 2
    assert 0 < len(found.segments) < segments_count
    assert max(found.segments) == found.segments.keys().__iter__().__next__()
    assert dirty.offsets == [*range(40)]


def many_pairs(dirty: Dirty) -> None:
    for number in range(30):
        dirty.put((b"%d" % (number % 7), b"%d" % number))


def transaction(dirty: Dirty) -> None:
    many_pairs(dirty)
    dirty.produce(1, (b"1", b"aborted"), transactional=True)
    dirty.end(1, ControlType.ABORT)
    many_pairs(dirty)


def wrong_entry(dirty: Dirty) -> None:
    """Of two entries of the index, the first is not the position of a batch."""
    many_pairs(dirty)
    active = dirty.log.segments.active
    size = active.size
    dirty.put((b"a", b"1"))
    for entry in ((1, 75), (30, size)):
        active.reader.offset_index.append_fields(entry)


@pytest.mark.parametrize("fill", [transaction, wrong_entry])
def test_what_needs_the_other_direction_is_read_forwards(
    fill: Callable[[Dirty], None], attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, sizes = [], []
    for is_backward in (True, False):
        dirty, counted = Dirty(), []
        fill(dirty)
        dirty.roll()
        if not is_backward:
            forwards_only(monkeypatch)
        left.append(cleaned(dirty, OffsetMap(24 * 100), counted))
        sizes.append(sum(counted))

    assert attempts.successes == [False]
    assert left[0] == left[1]
    assert sizes[0] == sizes[1]


def test_a_map_that_is_too_small_ends_each_round_where_it_ended_and_is_tried_once(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[list[int]] = []
    for is_backward in (True, False):
        if not is_backward:
            forwards_only(monkeypatch)
        dirty, offset_map = Dirty(internal_segment_bytes=500), OffsetMap(24 * 10)
        for number in range(60):
            dirty.put((b"%d" % (number % 23), b"%d" % number))
        dirty.roll()
        rounds.append([])
        while dirty.checkpoint < dirty.log.log_end_offset:
            result, _ = cleaned(dirty, offset_map)
            dirty.checkpoint = result.end_offset
            rounds[-1].append(result.end_offset)

    assert rounds[0] == rounds[1]
    assert len(rounds[0]) > 2
    assert not any(attempts.successes)


@pytest.mark.parametrize("keys", [7, 8])
def test_a_map_with_room_for_exactly_the_keys_is_full_for_both(
    keys: int, attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full map takes no further record, even of a key that it has."""
    ends = []
    for is_backward in (True, False):
        if not is_backward:
            forwards_only(monkeypatch)
        dirty = Dirty()
        many_pairs(dirty)
        dirty.roll()
        ends.append(dirty.clean(keys=keys).end_offset)

    assert ends == [[7, 7], [30, 30]][keys - 7]
    assert attempts.successes == [keys == 8]


def test_damage_is_reported_as_when_reading_forwards(attempts: Attempts) -> None:
    dirty = Dirty(index_interval_bytes=1)
    many_pairs(dirty)
    last = dirty.log.segments.active.size
    dirty.put((b"a", b"1"))
    dirty.roll()
    path, size = dirty.log.segments.first.log_path, dirty.log.segments.first.size
    dirty.machine.disk.write_at(path, b"\xff", size - 2)
    names = dirty.machine.files()

    with pytest.raises(CorruptRecordError, match="CRC-32C") as caught:
        dirty.clean()

    assert (caught.value.path, caught.value.position) == (path, last)
    assert dirty.machine.files() == names
    assert attempts.successes == [False]


class FullDisk(io.BytesIO):
    def write(self, data: object) -> int:  # noqa: ARG002
        raise OSError(errno.ENOSPC, "full")


def no_file(directory: object) -> BinaryIO:
    raise DiskError(str(directory), "could not create it", errno.EACCES)


@pytest.mark.parametrize("temporary_file", [no_file, lambda _: FullDisk()])
def test_without_room_for_the_spool_the_log_is_read_again(
    temporary_file: Callable[[object], BinaryIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    dirty = Dirty()
    many_pairs(dirty)
    dirty.roll()
    monkeypatch.setattr(dirty.machine.disk, "temporary_file", temporary_file)

    dirty.clean()

    assert dirty.offsets == [*range(23, 30)]


def test_a_record_below_the_base_of_its_segment_is_read_forwards(attempts: Attempts) -> None:
    """Backwards, it would be judged before the older segments are in the map."""
    dirty = Dirty(index_interval_bytes=1)
    many_pairs(dirty)
    dirty.roll()
    many_pairs(dirty)
    dirty.roll()
    second = list(dirty.log.segments)[1]
    data = bytearray(second.reader.read_bytes(0, second.size))
    data[7] = 3  # of offset 30, in the first batch
    dirty.machine.disk.write_at(second.log_path, bytes(data), 0)

    dirty.clean()

    assert attempts.successes == [False]


def test_a_segment_that_is_renamed_before_it_is_opened_is_cleaned(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention renames segments while a log is cleaned. Reads look for the new name; this one cannot."""
    dirty = Dirty()
    many_pairs(dirty)
    dirty.roll()

    def gone(path: str) -> ReadFile:
        raise DiskError(path, "could not open it", errno.ENOENT)

    monkeypatch.setattr(dirty.machine.disk, "open_read", gone)

    dirty.clean()

    assert attempts.successes == [False]
    assert dirty.offsets == [*range(23, 30)]


def test_a_cleaning_that_is_stopped_while_it_reads_backwards_changes_nothing() -> None:
    dirty = Dirty(index_interval_bytes=1)
    many_pairs(dirty)
    dirty.roll()
    names, files = dirty.machine.files(), []
    make = dirty.machine.disk.temporary_file
    calls = 0

    def check_done() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise InterruptedError

    def noted(directory: str) -> BinaryIO:
        files.append(make(directory))
        return files[-1]

    dirty.machine.disk.temporary_file = noted  # type: ignore[assignment,method-assign]
    with pytest.raises(InterruptedError):
        dirty.clean(check_done=check_done)

    assert dirty.machine.files() == names
    assert [file.closed for file in files] == [True]
    assert dirty.clean().stats.records_written == 7
    assert [file.closed for file in files] == [True, True]


def test_all_that_is_read_and_written_is_throttled_backwards_too(attempts: Attempts) -> None:
    dirty = Dirty(index_interval_bytes=1)
    many_pairs(dirty)
    dirty.roll()
    told: list[int] = []

    stats = dirty.clean(throttle=told.append).stats

    assert attempts.successes == [True]
    # What stays is written to the spool, read from it, and written to the new segment.
    assert sum(told) == stats.map_bytes_read + 3 * stats.bytes_written
