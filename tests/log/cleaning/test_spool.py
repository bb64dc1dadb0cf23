"""What is put aside takes little room, and a cleaning does without it if it is lost."""

from __future__ import annotations

import errno
import io
from collections.abc import Sequence

import pytest

from stratalog.errors import DiskError
from stratalog.log.cleaning import OffsetMap, spool
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from tests.log.cleaning.dirty import Dirty
from tests.log.cleaning.small_pieces import Attempts, forwards_only
from tests.log.cleaning.test_newest_first import attempts, cleaned, many_pairs

__all__ = ["attempts"]


def test_a_spool_that_does_not_fit_the_disk_leaves_its_room_to_the_new_segments(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NearlyFull(io.BytesIO):
        def write(self, data: object) -> int:
            if self.tell() > 300:
                raise OSError(errno.ENOSPC, "full")
            return super().write(data)  # type: ignore[arg-type]

    dirty, file, sizes = Dirty(), NearlyFull(), []
    for _ in range(2):
        many_pairs(dirty)
        dirty.roll()
        dirty.put(*((b"%d" % number, bytes(300)) for number in range(10, 12)))
        dirty.roll()
    replace = dirty.replace

    def replace_noted(new: LogSegment, old: Sequence[SegmentReader]) -> None:
        sizes.append(len(file.getvalue()))
        replace(new, old)

    monkeypatch.setattr(dirty.machine.disk, "temporary_file", lambda _: file)
    monkeypatch.setattr(dirty, "replace", replace_noted)

    dirty.clean()

    assert attempts.results[0] is not None
    assert attempts.results[0].segments == {}
    assert set(sizes) == {0}
    assert dirty.offsets == [*range(55, 64)]


@pytest.mark.parametrize(("room", "is_spooled"), [(1 << 40, True), (1000, False)])
def test_a_spool_takes_a_quarter_of_the_free_space_at_most(
    room: int, is_spooled: bool, attempts: Attempts
) -> None:
    dirty = Dirty()
    many_pairs(dirty)
    dirty.roll()
    dirty.machine.disk.room = room  # type: ignore[attr-defined]

    dirty.clean()

    assert attempts.results[0] is not None
    assert bool(attempts.results[0].segments) == is_spooled
    assert dirty.offsets == [*range(23, 30)]


def test_a_spool_has_a_limited_number_of_runs(attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are is in memory."""
    monkeypatch.setattr(spool, "_MOST_PLACES", 1)
    dirty = Dirty(index_interval_bytes=1)
    many_pairs(dirty)
    dirty.roll()
    dirty.put(*((b"%d" % number, b"") for number in range(3)))
    dirty.roll()

    dirty.clean()

    assert attempts.results[0] is not None
    assert [*attempts.results[0].segments] == [30]
    assert dirty.offsets == [*range(24, 28), *range(30, 33)]


class Forgetful(io.BytesIO):
    def write(self, data: object) -> int:
        return len(memoryview(data))  # type: ignore[arg-type]


class Zeros(io.BytesIO):
    """What a file system may show after a write that the device has refused."""

    def write(self, data: object) -> int:
        return super().write(bytes(len(memoryview(data))))  # type: ignore[arg-type]


class Flipped(io.BytesIO):
    """One byte of a value differs."""

    def write(self, data: object) -> int:
        changed = bytearray(memoryview(data))  # type: ignore[arg-type]
        changed[-2] ^= 1
        return super().write(changed)


class OtherOffset(io.BytesIO):
    """One bit of the first batch's offset differs, which the checksum of the batch does not cover."""

    def write(self, data: object) -> int:
        changed = bytearray(memoryview(data))  # type: ignore[arg-type]
        changed[7] ^= 2
        return super().write(changed)


class Unreadable(io.BytesIO):
    def readinto(self, _buffer: object) -> int:  # type: ignore[override]
        raise OSError(errno.EIO, "broken")


@pytest.mark.parametrize("kind", [Forgetful, Zeros, Flipped, OtherOffset, Unreadable])
def test_a_spool_that_lost_bytes_is_given_up_for_the_originals(
    kind: type[io.BytesIO], attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = []
    for is_backward in (True, False):
        dirty = Dirty()
        many_pairs(dirty)
        dirty.roll()
        if is_backward:
            monkeypatch.setattr(dirty.machine.disk, "temporary_file", lambda _: kind())
        else:
            forwards_only(monkeypatch)
        left.append(cleaned(dirty, OffsetMap(24 * 1000)))

    assert attempts.successes == [True]
    assert left[0] == left[1]


def test_a_new_segment_gets_the_room_of_the_spool(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that could be cleaned while it was read forwards failed on a full disk."""
    dirty, file, refused = Dirty(), io.BytesIO(), []
    many_pairs(dirty)
    dirty.roll()
    append = LogSegment.append

    def append_if_there_is_room(segment: LogSegment, *arguments: object) -> None:
        if not file.closed:
            refused.append(segment.log_path)
            raise DiskError(segment.log_path, "could not append to it: no space", errno.ENOSPC)
        append(segment, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(dirty.machine.disk, "temporary_file", lambda _: file)
    monkeypatch.setattr(LogSegment, "append", append_if_there_is_room)

    stats = dirty.clean().stats

    assert attempts.successes == [True]
    assert len(refused) == 1
    assert dirty.offsets == [*range(23, 30)]
    assert (stats.records_read, stats.records_written) == (30, 7)


def test_what_is_put_aside_of_a_segment_that_does_not_fit_takes_no_room(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never read, and the new segments need the room."""
    dirty, file = Dirty(internal_segment_bytes=700, index_interval_bytes=1), io.BytesIO()
    for number in range(40):
        dirty.put((b"%d" % number, bytes(50)))
    dirty.roll()
    close = file.close
    sizes: list[int] = []
    monkeypatch.setattr(dirty.machine.disk, "temporary_file", lambda _: file)
    monkeypatch.setattr(file, "close", lambda: (sizes.append(len(file.getvalue())), close()), raising=False)

    dirty.clean()

    (found,) = attempts.results
    assert found is not None
    assert sizes == [sum(place.size for kept in found.segments.values() for place in kept.places)]
    assert 0 < len(found.segments) < len(dirty.log.segments)
    assert dirty.offsets == [*range(40)]
