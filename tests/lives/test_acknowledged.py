"""The judge of killed writers notices what it is there for: a journal by hand, and logs that are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.lives.acknowledged import Acknowledged
from tests.lives.known import Found, LogState, Policy

QUEUE, LEDGER = "queue", "ledger"
POLICIES = {QUEUE: Policy(retention_size=1000), LEDGER: Policy(is_compacted=True)}


def tried(
    topic: str, name: str, *records: tuple[str, str | None, int | None], transaction: str | None = None
) -> list[Any]:
    producer = 7 if transaction is not None else -1
    return ["try", topic, name, producer, 0, transaction, 100, records]


def batch(topic: str, first: int, *records: tuple[str, str | None, int | None]) -> list[list[Any]]:
    """A batch that was acknowledged; `first` is its offset and names it."""
    name = f"batch {first}"
    return [tried(topic, name, *records), ["ack", topic, name, first, first + len(records) - 1]]


def of(known: Acknowledged, topic: str, *, without: Sequence[int] = (), **fields: Any) -> LogState:
    """The log as it should be, except for some offsets and other fields."""
    written = known.topics[topic].written
    records = [
        Found(offset, each.identity, each.key, each.crc, each.attempt.producer)
        for offset, each in sorted(written.items())
        if offset not in without
    ]
    end = max(written, default=-1) + 1
    state = LogState(
        start=known.topics[topic].start,
        end=end,
        stable=end,
        records=records,
        committed=[found.offset for found in records],
    )
    return replace(state, **fields)


@pytest.fixture
def queue() -> Acknowledged:
    """Six records in three batches, acknowledged."""
    known = Acknowledged(POLICIES)
    for first in (0, 2, 4):
        known.note(batch(QUEUE, first, (f"1.b.{first}", None, 10), (f"1.b.{first + 1}", None, 11)))
    return known


@pytest.fixture
def ledger() -> Acknowledged:
    """Two keys: one with two values and a tombstone, one with a value."""
    known = Acknowledged(POLICIES)
    known.note(batch(LEDGER, 0, ("1.a.0", "gone", 1), ("1.a.1", "gone", 2)))
    known.note(batch(LEDGER, 2, ("1.a.2", "kept", 3)))
    known.note(batch(LEDGER, 3, ("1.a.3", "gone", None)))
    return known


@pytest.fixture
def trades() -> Acknowledged:
    """One transaction in a compacted log, its marker at offset 2 still to be written."""
    known = Acknowledged(POLICIES)
    known.note([tried(LEDGER, "t", ("1.d.0", "a", 1), ("1.d.1", "b", 2), transaction="one")])
    known.note([["ack", LEDGER, "t", 0, 1]])
    return known


def findings(known: Acknowledged, topic: str, state: LogState) -> str:
    known.compare(topic, state)
    return " ".join(known.findings)


def test_a_log_that_has_everything_is_right(queue: Acknowledged, ledger: Acknowledged) -> None:
    assert findings(queue, QUEUE, of(queue, QUEUE)) == ""
    assert findings(ledger, LEDGER, of(ledger, LEDGER)) == ""


def test_an_acknowledged_record_that_is_lost_is_noticed(queue: Acknowledged) -> None:
    assert "1.b.5 at 5 is lost" in findings(queue, QUEUE, of(queue, QUEUE, without=[5], end=5, stable=5))


def test_a_recovery_that_cuts_a_batch_too_much_is_noticed(queue: Acknowledged) -> None:
    cut = of(queue, QUEUE, without=[4, 5], end=4, stable=4)

    assert "1.b.4 at 4 is lost" in findings(queue, QUEUE, cut)


def test_a_hole_is_noticed(queue: Acknowledged) -> None:
    assert "1.b.2 at 2 is lost" in findings(queue, QUEUE, of(queue, QUEUE, without=[2, 3]))


def test_a_record_that_is_there_twice_is_noticed(queue: Acknowledged) -> None:
    state = of(queue, QUEUE)
    again = [*state.records, state.records[-1]._replace(offset=6)]

    assert "1.b.5 is there 2 times" in findings(
        queue, QUEUE, replace(state, records=again, end=7, stable=7, committed=range(7))
    )


def test_a_retry_that_is_appended_again_is_noticed() -> None:
    known = Acknowledged(POLICIES)
    once = ["try", QUEUE, "t", 7, 0, None, 100, [("1.b.0", None, 1)]]
    known.note([once, ["ack", QUEUE, "t", 0, 0], once, ["ack", QUEUE, "t", 1, 1]])

    assert known.findings == ["queue: t is at 0; sent again, it was put at 1."]


def test_a_retry_that_is_recognised_is_right() -> None:
    known = Acknowledged(POLICIES)
    once = ["try", QUEUE, "t", 7, 0, None, 100, [("1.b.0", None, 1)]]
    known.note([once, ["ack", QUEUE, "t", 0, 0], once, ["ack", QUEUE, "t", 0, 0]])

    assert known.findings == []
    assert known.counts["retries"] == 1


def test_records_in_another_order_are_noticed(queue: Acknowledged) -> None:
    state = of(queue, QUEUE)
    one, two, *rest = state.records
    swapped = [one._replace(identity=two.identity), two._replace(identity=one.identity), *rest]

    assert "1.b.0 comes after 1.b.1" in findings(queue, QUEUE, replace(state, records=swapped))


def test_a_value_that_has_changed_is_noticed(queue: Acknowledged) -> None:
    state = of(queue, QUEUE)
    changed = [state.records[0]._replace(crc=99), *state.records[1:]]

    assert "another key or value" in findings(queue, QUEUE, replace(state, records=changed))


def test_a_record_that_nobody_wrote_is_noticed(queue: Acknowledged) -> None:
    state = of(queue, QUEUE)
    more = [*state.records, Found(6, "9.x.0")]

    assert "9.x.0 is at 6, where nothing was written" in findings(
        queue, QUEUE, replace(state, records=more, end=7, stable=7)
    )


def test_an_append_that_was_under_way_is_there_as_a_whole_or_not_at_all(queue: Acknowledged) -> None:
    queue.note([tried(QUEUE, "t", ("1.b.6", None, 1), ("1.b.7", None, 2))])
    state = of(queue, QUEUE)
    half = [*state.records, Found(6, "1.b.6", None, 1)]

    assert "1.b.7 at 7 is lost" in findings(
        queue, QUEUE, replace(state, records=half, end=7, stable=7, committed=range(7))
    )


def test_what_was_found_once_must_stay_though_it_was_never_acknowledged(queue: Acknowledged) -> None:
    queue.note([tried(QUEUE, "t", ("1.b.6", None, 1))])
    without = of(queue, QUEUE)
    found = [*without.records, Found(6, "1.b.6", None, 1)]
    assert findings(queue, QUEUE, replace(without, records=found, end=7, stable=7, committed=range(7))) == ""

    assert "1.b.6 at 6 is lost" in findings(queue, QUEUE, without)


def test_a_truncation_that_is_undone_is_noticed(queue: Acknowledged) -> None:
    before = of(queue, QUEUE)
    queue.note([["cutting", QUEUE, 4], ["cut", QUEUE, 4]])

    assert "1.b.4 is back, at 4" in findings(queue, QUEUE, before)


def test_a_truncation_that_leaves_a_hole_is_noticed(queue: Acknowledged) -> None:
    queue.note([["cutting", QUEUE, 2]])

    assert "2 was cut off, but 4 behind it was not" in findings(
        queue, QUEUE, of(queue, QUEUE, without=[2, 3])
    )


def test_a_truncation_that_was_under_way_may_have_gone_half_its_way(queue: Acknowledged) -> None:
    queue.note([["cutting", QUEUE, 2]])

    assert findings(queue, QUEUE, of(queue, QUEUE, without=[4, 5], end=4, stable=4)) == ""


def test_deleted_records_that_come_back_are_noticed(queue: Acknowledged) -> None:
    before = of(queue, QUEUE)
    queue.note([["deleting", QUEUE, 3], ["deleted", QUEUE, 3]])

    assert "it starts at 0; that is at least 3" in findings(queue, QUEUE, before)


def test_a_start_that_nobody_asked_for_is_noticed(queue: Acknowledged) -> None:
    state = of(queue, QUEUE, without=[0, 1], start=2)

    assert "it starts at 2; that is at least 0, at most 0" in findings(queue, QUEUE, state)


def test_retention_leaves_as_much_as_it_has_to() -> None:
    known = Acknowledged(POLICIES)
    for first in range(12):
        known.note(batch(QUEUE, first, (f"1.b.{first}", None, 1)))

    assert findings(known, QUEUE, of(known, QUEUE, without=[0, 1], start=2)) == ""
    assert "it starts at 3; that is at least 2, at most 2" in findings(
        known, QUEUE, of(known, QUEUE, without=[2], start=3)
    )


def test_compaction_may_take_what_is_not_the_last_of_its_key(ledger: Acknowledged) -> None:
    assert findings(ledger, LEDGER, of(ledger, LEDGER, without=[0, 1])) == ""
    assert findings(ledger, LEDGER, of(ledger, LEDGER, without=[3])) == ""


def test_the_last_value_of_a_key_that_is_lost_is_noticed(ledger: Acknowledged) -> None:
    assert "1.a.2 at 2 is lost" in findings(ledger, LEDGER, of(ledger, LEDGER, without=[2]))


def test_a_deleted_key_that_is_back_is_noticed(ledger: Acknowledged) -> None:
    without_tombstone = of(ledger, LEDGER, without=[0, 3])

    assert "1.a.3 at 3 is compacted away, but gone is still there at 1" in findings(
        ledger, LEDGER, without_tombstone
    )


def test_a_compacted_record_that_comes_back_is_noticed(ledger: Acknowledged) -> None:
    whole = of(ledger, LEDGER)
    assert findings(ledger, LEDGER, of(ledger, LEDGER, without=[0])) == ""

    assert "1.a.0 is back, at 0" in findings(ledger, LEDGER, whole)


def test_an_open_transaction_that_can_be_read_is_noticed(trades: Acknowledged) -> None:
    assert "0 is open, but stable" in findings(trades, LEDGER, of(trades, LEDGER))


def test_a_committed_transaction_that_cannot_be_read_is_noticed(trades: Acknowledged) -> None:
    trades.note([["end", LEDGER, "m", 7, "one", "commit"], ["ack", LEDGER, "m", 2, 2]])

    assert "1.d.0 at 0 cannot be read as committed" in findings(
        trades, LEDGER, of(trades, LEDGER, committed=[])
    )


def test_an_aborted_transaction_that_can_be_read_is_noticed(trades: Acknowledged) -> None:
    trades.note([["end", LEDGER, "m", 7, "one", "abort"], ["ack", LEDGER, "m", 2, 2]])

    assert "1.d.1 at 1 can be read as committed" in findings(
        trades, LEDGER, of(trades, LEDGER, committed=[0, 1])
    )


def test_a_log_that_is_not_stable_to_its_end_is_noticed(queue: Acknowledged) -> None:
    assert "stable up to 4, not to its end 6" in findings(queue, QUEUE, of(queue, QUEUE, stable=4))


def test_what_a_reader_saw_must_be_there(queue: Acknowledged) -> None:
    queue.note([tried(QUEUE, "t", ("1.b.6", None, 1))])
    state = of(queue, QUEUE)
    queue.saw(QUEUE, [*state.records, Found(6, "1.b.6", None, 1, None)])

    assert "1.b.6 at 6 is lost" in findings(queue, QUEUE, state)


def test_a_reader_that_skips_a_record_is_noticed(queue: Acknowledged) -> None:
    one, _, *rest = of(queue, QUEUE).records
    queue.saw(QUEUE, [one, *rest])

    assert queue.findings == ["queue: a reader got 0 and 2, but not 1."]


def test_a_reader_that_gets_what_was_never_there_is_noticed(queue: Acknowledged) -> None:
    queue.saw(QUEUE, [Found(3, "1.b.5", None, 11, None)])

    assert queue.findings == ["queue: a reader got 1.b.5 at 3, which was never there."]


def test_a_reader_may_have_seen_what_was_cut_off_since(queue: Acknowledged) -> None:
    seen = of(queue, QUEUE).records
    queue.note([["cutting", QUEUE, 4], ["cut", QUEUE, 4]])
    queue.saw(QUEUE, seen)

    assert queue.findings == []
