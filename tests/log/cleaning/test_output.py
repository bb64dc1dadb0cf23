"""What is left is appended by a thread, or at once: the same bytes, and the same failures."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning import OffsetMap, clean, clean_log
from stratalog.log.cleaning.filter import FilteredRun
from stratalog.log.cleaning.results import CleanResult
from stratalog.log.cleaning.runs import DecodedRun
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from stratalog.segment.segment import LogSegment
from tests.log.cleaning.dirty import Dirty
from tests.log.cleaning.small_pieces import forwards_only

MIB = 1 << 20


def alive() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("stratalog-")]


def make_dirty(seed: int, codecs: tuple[Codec, ...]) -> Dirty:
    """Several megabytes in two segments, a transaction aborted now and then."""
    rng = random.Random(seed)
    dirty = Dirty(internal_segment_bytes=4 * MIB)
    size = 0
    while size < 6 * MIB:
        pairs = [(b"%d" % rng.randrange(400), rng.randbytes(rng.choice([10, 3000]))) for _ in range(40)]
        if rng.random() < 0.2:
            dirty.produce(1, *pairs, transactional=True)
            dirty.end(1, rng.choice([ControlType.ABORT, ControlType.COMMIT]))
        else:
            dirty.put(*pairs, codec=rng.choice(codecs))
        size += sum(len(value) for _, value in pairs)
    dirty.roll()
    return dirty


def files_of(dirty: Dirty) -> dict[str, bytes]:
    disk = dirty.machine.disk
    assert isinstance(disk, SimulatedDisk)
    return disk.contents()


@pytest.mark.parametrize("codecs", [(Codec.NONE,), (Codec.ZSTD,), tuple(Codec)])
def test_a_thread_writes_the_bytes_that_are_written_without_one(codecs: tuple[Codec, ...]) -> None:
    def see(run: DecodedRun, kept: FilteredRun) -> None:
        """With an observer, each run is written before the next is read."""

    left: list[tuple[CleanResult, dict[str, bytes]]] = []
    for observe in (clean._unseen, see):
        dirty = make_dirty(5, codecs)
        result = clean_log(
            dirty.bounds(), OffsetMap(1 << 16), now_ms=1, replace_segments=dirty.replace, observe=observe
        )
        left.append((result, files_of(dirty)))

    assert left[0] == left[1]
    assert 0 < left[0][0].stats.bytes_written < left[0][0].stats.bytes_read
    assert not alive()


def test_a_failure_of_the_thread_ends_the_cleaning_and_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    dirty = make_dirty(6, (Codec.ZSTD,))
    before = dirty.machine.files()
    writers: list[threading.Thread] = []

    def fail(*_: object) -> None:
        writers.append(threading.current_thread())
        raise OSError("the disk is full")

    monkeypatch.setattr(LogSegment, "append", fail)
    with pytest.raises(OSError, match="the disk is full"):
        dirty.clean()

    assert len(writers) == 1
    assert writers[0] is not threading.current_thread()
    assert dirty.machine.files() == before
    assert not alive()


def test_a_failure_of_the_last_write_keeps_the_short_segment_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After it no memory is asked for: only leaving the context can raise it."""
    append = LogSegment.append
    writers: list[threading.Thread] = []
    fails_at = 0

    def append_or_fail(segment: LogSegment, *given: Any) -> Any:
        writers.append(threading.current_thread())
        if len(writers) == fails_at:
            raise OSError("the disk is full")
        return append(segment, *given)

    monkeypatch.setattr(LogSegment, "append", append_or_fail)
    dirty = make_dirty(6, (Codec.NONE,))
    writers.clear()
    dirty.clean()
    fails_at = len(writers)
    dirty = make_dirty(6, (Codec.NONE,))
    last = list(dirty.log.segments)[-2]
    before = last.reader.read_bytes(0, last.size)
    writers.clear()

    with pytest.raises(OSError, match="the disk is full"):
        dirty.clean()

    assert len(writers) == fails_at
    assert writers[-1].name == "stratalog-cleaned"
    left = list(dirty.log.segments)[-2]
    assert left.base_offset == last.base_offset
    assert left.reader.read_bytes(0, left.size) == before
    assert not [name for name in dirty.machine.files() if name.endswith(".cleaned")]
    assert not alive()


def test_a_cleaning_that_is_stopped_waits_for_its_threads() -> None:
    dirty = make_dirty(7, (Codec.ZSTD,))
    before = dirty.machine.files()
    calls = iter(range(1000))

    def stop() -> None:
        if next(calls) == 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dirty.clean(check_done=stop)

    assert not alive()
    assert dirty.machine.files() == before


def test_all_that_is_written_behind_is_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    forwards_only(monkeypatch)
    dirty = make_dirty(8, (Codec.NONE,))
    told: list[int] = []

    stats = dirty.clean(throttle=told.append).stats

    assert sum(told) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written
