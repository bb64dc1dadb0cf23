"""The end of a log that another process writes, truncates and fills again while it is read.

`MeetingDisk` lets the writer do so between two reads of the view. Where batches have other sizes than those
before, a new one starts in the middle of an old one: that looks like damage to a reader of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stratalog import PartitionLog, open_log
from stratalog.errors import CorruptRecordError, OffsetOutOfRangeError
from stratalog.files.disk import Disk
from stratalog.files.entries import ExpectedFile, ReadFile
from stratalog.files.entries import Path as FilePath
from tests.log.model import batch as batch_of

if TYPE_CHECKING:
    from stratalog.files.disk import Target

COUNT, CUT = 60, 7
SETTINGS: dict[str, Any] = {
    "internal.segment.bytes": 3000,
    "index.interval.bytes": 100,
    "segment.index.bytes": 4096,
}
FEWEST_READS = 4


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_a_batch_that_is_being_written_is_not_seen(tmp_path: Path, cut: int) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log:
        log.append(b"a")
        log.append(b"b")
    file = directory / f"{0:020d}.log"
    os.truncate(file, file.stat().st_size - min(cut, file.stat().st_size // 2))

    with open_log(directory, read_only=True) as view:
        assert [record.value for record in view.records()] == [b"a"]


def test_the_zeros_of_a_preallocated_file_are_its_end(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True, config={"preallocate": True, "segment.bytes": 1 << 20}) as log:
        log.append(b"a")
        assert (directory / f"{0:020d}.log").stat().st_size == 1 << 20
        with open_log(directory, read_only=True) as view:
            assert ([record.value for record in view.records()], view.end_offset) == ([b"a"], 1)


def test_damage_before_the_end_is_told_after_what_is_before_it(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log:
        for value in (b"a", b"b", b"c"):
            log.append(value)
    file = directory / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    third = len(data) // 3
    data[third + 65] ^= 1
    file.write_bytes(data)

    with open_log(directory, read_only=True) as view:
        records = view.records()
        assert next(records).value == b"a"
        with pytest.raises(CorruptRecordError, match=f"00000000000000000000.log at byte {third}: batch CRC"):
            next(records)


def test_a_reader_of_a_log_whose_offsets_go_back_comes_to_an_end(tmp_path: Path) -> None:
    """It went by the last batch of a fetch, and fetched the same one for ever."""
    log = tmp_path / "orders-0" / f"{0:020d}.log"
    log.parent.mkdir()
    log.write_bytes(batch_of(b"a", b"b", b"c") + batch_of(b"back"))
    (log.parent / f"{40:020d}.log").write_bytes(batch_of(b"behind", base_offset=40))

    with open_log(log.parent, read_only=True) as view:
        found = [record.offset for record in islice(view.records(), 20)]

    assert found == [0, 1, 2, 0, 40]


def test_a_record_at_the_largest_offset_there_is_ends_a_view(tmp_path: Path) -> None:
    last = 2**63 - 1
    log = tmp_path / "orders-0" / f"{last:020d}.log"
    log.parent.mkdir()
    log.write_bytes(batch_of(b"a", base_offset=last))

    with open_log(log.parent, read_only=True) as view:
        assert (view.end_offset, view.last_stable_offset, list(view.records())) == (last, last, [])


def test_an_offset_behind_the_largest_one_is_in_no_batch(tmp_path: Path) -> None:
    """Where a damaged batch has the largest one, recovery and readers ask for the next."""
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"a")

        assert log.log.segments.active.reader.translate_offset(2**63) is None


class MeetingDisk(Disk):
    """Does something before the n-th read of a file whose name ends so, and before each one after it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads_count = 0
        self.meet: dict[int, Callable[[], object]] = {}

    def read_into(
        self, source: ReadFile | FilePath, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        self._count(source)
        return super().read_into(source, buffer, position, identity)

    def read_at(
        self, path: FilePath, size: int, position: int, identity: ExpectedFile | None = None
    ) -> bytes:
        self._count(path)
        return super().read_at(path, size, position, identity)

    def _count(self, source: ReadFile | FilePath) -> None:
        if str(source).endswith((".log", "index")):
            self.reads_count += 1
            self.meet.pop(self.reads_count, lambda: None)()


def value_of(offset: int, life: int) -> bytes:
    return f"{offset:04d} {life}".encode() + b"." * ((offset * 7 + life * 13) % 90)


def fill(log: PartitionLog, life: int) -> None:
    while log.end_offset < COUNT:
        first = log.end_offset
        last = min(first + (first + life) % 3, COUNT - 1)
        log.append_many([value_of(offset, life) for offset in range(first, last + 1)])


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[PartitionLog]:
    with open_log(tmp_path / "orders-0", create=True, config=SETTINGS) as log:
        fill(log, 0)
        yield log


@pytest.mark.parametrize("offset", [0, 40])
@pytest.mark.parametrize("as_arrow", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_a_truncation_beside_a_view_does_not_look_like_damage(
    writer: PartitionLog, *, offset: int, as_arrow: bool, times: int
) -> None:
    life = 0

    def cut() -> None:
        nonlocal life
        writer.truncate_to(CUT + life % 5)
        life += 1
        fill(writer, life)

    for at in count(1):
        before = life
        disk = MeetingDisk()
        with open_log(writer.directory, read_only=True, config=SETTINGS, disk=disk) as view:
            disk.reads_count = 0
            disk.meet = dict.fromkeys(range(at, at + times), cut)
            try:
                found = list(read(view, offset, as_arrow=as_arrow))
            except OffsetOutOfRangeError:
                continue
        if life == before:
            break
        offsets = [place for place, _ in found]
        assert offsets == sorted(set(offsets))
        assert all(place >= offset for place in offsets)
        known = [{value_of(place, number) for number in range(life + 1)} for place in offsets]
        assert all(value in values for (_, value), values in zip(found, known, strict=True))
    assert at > FEWEST_READS


class SizedDisk(Disk):
    """Does something when the size of a file is read for the n-th time."""

    def __init__(self, at: int, meet: Callable[[], object]) -> None:
        super().__init__()
        self._left, self._meet = at, meet

    @property
    def has_met(self) -> bool:
        return self._left <= 0

    def size(self, source: ReadFile | FilePath) -> int:
        self._left -= 1
        if not self._left:
            self._meet()
        return super().size(source)


@pytest.mark.parametrize("change", ["truncate", "append"])
def test_a_log_that_changes_while_it_is_opened_to_be_read_hides_nothing(
    writer: PartitionLog, change: str
) -> None:
    def meet() -> None:
        if change == "truncate":
            writer.truncate_to(CUT)
        else:
            writer.append(b"." * 100)

    for at in count(1):
        disk = SizedDisk(at, meet)
        with open_log(writer.directory, read_only=True, config=SETTINGS, disk=disk) as view:
            assert view.hidden is None
        if not disk.has_met:
            break
        fill(writer, 0)
    assert at > 2


class TornDisk(Disk):
    """The first long read of a log gives bytes that are half of this and half of that."""

    def __init__(self) -> None:
        super().__init__()
        self.is_torn = False

    def read_at(
        self, path: FilePath, size: int, position: int, identity: ExpectedFile | None = None
    ) -> bytes:
        data = super().read_at(path, size, position, identity)
        if self.is_torn or not str(path).endswith(".log"):
            return data
        self.is_torn = True
        return data[: len(data) // 2] + bytes(byte ^ 1 for byte in data[len(data) // 2 :])


@pytest.mark.parametrize("as_arrow", [False, True])
def test_a_read_that_meets_a_write_is_done_again(writer: PartitionLog, *, as_arrow: bool) -> None:
    disk = TornDisk()
    with open_log(writer.directory, read_only=True, config=SETTINGS, disk=disk) as view:
        found = list(read(view, 0, as_arrow=as_arrow))

    assert disk.is_torn
    assert found == [(offset, value_of(offset, 0)) for offset in range(COUNT)]


def test_damage_in_a_log_that_is_written_is_still_told(writer: PartitionLog) -> None:
    path = Path(writer.log.segments.first.log_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with open_log(writer.directory, read_only=True, config=SETTINGS) as view:
        found: list[int] = []
        with pytest.raises(CorruptRecordError):
            found.extend(record.offset for record in view.records(0))

    assert found == [*range(len(found))]


def read(view: PartitionLog, offset: int, *, as_arrow: bool) -> Iterator[tuple[int, bytes | None]]:
    if as_arrow:
        for batch in view.arrow_batches(("offset", "value"), offset=offset):
            yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    else:
        yield from ((record.offset, record.value) for record in view.records(offset))
