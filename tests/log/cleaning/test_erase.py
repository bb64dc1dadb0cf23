"""Erasing: the named records are gone, everything else is unchanged, also for a broker.

The expected records come from the list of what was appended, or from real files of old formats.
"""

from __future__ import annotations

import random

import pytest

from stratalog.log.producers.rebuild import rebuild_producer_state
from stratalog.records.batch import RECORD_BATCH_OVERHEAD
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from tests.log.cleaning.dirty import NOW, Dirty
from tests.log.cleaning.erasing import erased, headers_of, transactions
from tests.manager.sweeping import committed


def test_the_log_ends_where_it_ended_though_its_last_records_are_gone() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    dirty.roll()
    dirty.put((b"b", b"1"), (b"b", b"2"))

    log = erased(dirty, keys=[b"b"])

    assert (dirty.offsets, log.log_end_offset) == ([0], 3)
    *_, last = headers_of(log)
    assert (last.size, last.records_count, last.last_offset) == (RECORD_BATCH_OVERHEAD, 0, 2)
    dirty.put((b"c", b"1"))
    assert dirty.pairs[-1] == (3, b"c", b"1")


@pytest.mark.parametrize("by_snapshot", [True, False])
def test_a_producer_goes_on_with_the_sequence_it_had(by_snapshot: bool) -> None:
    dirty = Dirty()
    dirty.produce(7, (b"a", b"1"), (b"b", b"1"))
    dirty.produce(7, (b"a", b"2"), (b"a", b"3"))

    log = erased(dirty, keys=[b"a"])
    if not by_snapshot:
        log.producers.truncate_fully_and_start_at(0)
        rebuild_producer_state(
            log.producers, log.segments.readers, log_start_offset=0, end_offset=4, now_ms=NOW
        )

    last = log.producers.producers[7]
    assert (last.last_sequence, last.last_data_offset) == (3, 3)
    dirty.produce(7, (b"c", b"1"))
    assert dirty.pairs == [(1, b"b", b"1"), (4, b"c", b"1")]


def test_transactions_end_as_they_ended_and_open_ones_stay_open() -> None:
    dirty = transactions()
    stable = dirty.log.last_stable_offset
    aborted = [entry for segment in dirty.log.segments for entry in segment.reader.txn_index.all_aborted()]

    log = erased(dirty, keys=[b"a"])

    assert [record.value for record in committed(log)] == [b"c2"]
    assert [value for _, key, value in dirty.pairs if key in (b"a", b"b")] == [b"c2", b"x2", b"p"]
    assert log.last_stable_offset == stable == 9
    assert (
        [entry for segment in log.segments for entry in segment.reader.txn_index.all_aborted()]
        == aborted
        != []
    )
    dirty.end(3, ControlType.COMMIT)
    assert [record.value for record in committed(log)] == [b"c2", b"p"]


def test_time_leads_to_what_is_left() -> None:
    dirty = Dirty()
    for number in range(4):
        dirty.put((b"%d" % number, b"v"), timestamp=NOW + number)

    log = erased(dirty, keys=[b"2"])

    found = log.first_not_before(NOW + 2)
    assert found is not None
    assert found.offset == 3


@pytest.mark.parametrize("seed", range(12))
def test_any_history_loses_what_was_named_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    dirty = Dirty(index_interval_bytes=100)
    appended: list[tuple[int, bytes | None, bytes | None]] = []
    for number in range(60):
        keyed = [None, b"", *(b"%d" % key for key in range(9))]
        pairs = [
            (chance.choice(keyed), b"%d-%d" % (number, chance.randrange(999)))
            for _ in range(chance.randrange(1, 6))
        ]
        if chance.random() < 0.4:
            first = dirty.produce(chance.randrange(3), *pairs)
        else:
            first = dirty.put(*pairs, codec=chance.choice(list(Codec)))
        appended += [(first + i, key, value) for i, (key, value) in enumerate(pairs)]
        if chance.random() < 0.2:
            dirty.roll()
    keys = {b"%d" % chance.randrange(9), chance.choice([b"", b"none"])}
    low = chance.randrange(100)
    end = dirty.log.log_end_offset

    log = erased(dirty, keys=keys, offsets=[(low, low + 7)])

    left = [each for each in appended if each[1] not in keys and not low <= each[0] <= low + 7]
    assert dirty.pairs == left
    assert log.log_end_offset == end
    assert len(headers_of(log)) == 60
