"""A log that is open while it is compacted: nothing that is cut meanwhile comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.errors import LogChangedError
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.log import Log
from tests.log.cleaning.dirty import Dirty
from tests.log.model import NOW, Machine, batch, read_all

COUNT, CUT = 41, 12
SET_SIZE = len(batch(b"old 0000", key=b"k"))
DELAY_MS = 1000


def test_a_log_that_is_told_to_clean_itself_knows_its_producers() -> None:
    dirty = Dirty()
    dirty.produce(7, (b"a", b"1"))
    dirty.put((b"a", b"2"))
    dirty.roll()

    dirty.log.clean(0, dirty.log.segments.active.base_offset, OffsetMap(24 * 100))

    # The last batch of a producer stays as a header, from which its sequence is known.
    assert [(header.producer_id, header.records_count) for header in dirty.headers()] == [(7, 0), (-1, 1)]


def machine() -> Machine:
    return Machine(
        internal_segment_bytes=5 * SET_SIZE,
        segment_index_bytes=1000,
        file_delete_delay_ms=DELAY_MS,
        cleanup_policy="compact,delete",
        retention_ms=-1,
    )


def append(log: Log, words: str, count: int) -> None:
    for number in range(log.log_end_offset, log.log_end_offset + count):
        data = batch(f"{words} {number:04d}".encode(), key=b"%d" % number, timestamp=NOW)
        log.append_as_leader(data, leader_epoch=0)


def truncate(_: Machine, log: Log) -> None:
    log.truncate_to(CUT)


def truncate_and_fill(_: Machine, log: Log) -> None:
    """Segments at the same offsets as before, one of them the very same object, but with other records."""
    log.truncate_to(CUT)
    append(log, "new", COUNT - CUT)


def truncate_and_delete(own: Machine, log: Log) -> None:
    """As `truncate`, and the delay of the deletion passes: the files are gone under the cleaner."""
    log.truncate_to(CUT)
    own.clock.sleep(DELAY_MS)
    own.scheduler.run_due()


def begin_anew(_: Machine, log: Log) -> None:
    log.truncate_fully_and_start_at(CUT)


def retain(_: Machine, log: Log) -> None:
    log.delete_records(CUT)
    log.delete_old_segments()


def retain_and_delete(own: Machine, log: Log) -> None:
    retain(own, log)
    own.clock.sleep(DELAY_MS)
    own.scheduler.run_due()


@pytest.mark.parametrize("at", [1, 3, 9, 12])
@pytest.mark.parametrize(
    "cut", [truncate, truncate_and_fill, truncate_and_delete, begin_anew, retain, retain_and_delete]
)
def test_what_was_cut_off_while_the_log_was_compacted_does_not_come_back(
    cut: Callable[[Machine, Log], None], at: int
) -> None:
    own = machine()
    log = own.open()
    append(log, "old", COUNT)
    calls = 0
    expected: list[object] = []

    def check_done() -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            cut(own, log)
            expected.extend(read_all(log))

    with pytest.raises(LogChangedError):
        log.clean(0, log.segments.active.base_offset, OffsetMap(1 << 16), check_done=check_done)

    assert read_all(log) == expected
    start = log.log_start_offset
    assert log.segments.first.base_offset <= start
    assert own.files(".cleaned") == []
    log = own.reopen(log)
    assert read_all(log) == expected
    assert log.log_start_offset == start
    log.clean(log.log_start_offset, log.segments.active.base_offset, OffsetMap(1 << 16))
    assert read_all(log) == expected
