"""A predicate narrows a scan to no less than what it can want."""

from __future__ import annotations

import random

import pytest

from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.narrowing import EVERYTHING, Wanted
from stratalog.scanning.predicates import (
    ABOVE,
    ALWAYS,
    AT_LEAST,
    AT_MOST,
    BELOW,
    EQUAL,
    NEVER,
    OPPOSITE,
    UNEQUAL,
    UNKNOWN,
    All,
    AnyOf,
    Predicate,
    compared,
    narrowing_by,
    one_of,
)
from tests.profile import examples

ORDERS = TopicPartition("orders", 3)
ONLY_SIX = Wanted(first_offset=6, last_offset=6)


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        (ALWAYS, EVERYTHING),
        (NEVER, None),
        (UNKNOWN, EVERYTHING),
        (~UNKNOWN, EVERYTHING),
        (compared("topic", EQUAL, "orders"), EVERYTHING),
        (compared("topic", UNEQUAL, "orders"), None),
        (compared("topic", BELOW, "p"), EVERYTHING),
        (compared("partition", AT_LEAST, 4), None),
        (one_of("partition", [1, None, 3]), EVERYTHING),
        (one_of("partition", [1, 2]), None),
        (one_of("partition", []), None),
        (one_of("key", [None]), EVERYTHING),
        (compared("offset", EQUAL, 5), Wanted(first_offset=5, last_offset=5)),
        (compared("offset", UNEQUAL, 5), EVERYTHING),
        (compared("offset", ABOVE, 5), Wanted(first_offset=6)),
        (compared("offset", AT_MOST, 5), Wanted(last_offset=5)),
        (compared("offset", BELOW, 5), Wanted(last_offset=4)),
        (compared("offset", BELOW, -(2**63)), None),
        (compared("timestamp", AT_LEAST, 5000), Wanted(since_ms=5)),
        (compared("timestamp", AT_LEAST, 5001), Wanted(since_ms=6)),
        (compared("timestamp", ABOVE, 5000), Wanted(since_ms=6)),
        (compared("timestamp", ABOVE, 5999), Wanted(since_ms=6)),
        (compared("timestamp", EQUAL, 5000), Wanted(since_ms=5)),
        (compared("timestamp", BELOW, 5000), EVERYTHING),
        (compared("value", EQUAL, 5), EVERYTHING),
        (compared("offset", EQUAL, "5"), EVERYTHING),
        (compared("offset", EQUAL, True), EVERYTHING),
        (All((compared("offset", ABOVE, 5), compared("offset", BELOW, 7))), ONLY_SIX),
        (All((compared("offset", ABOVE, 5), compared("offset", BELOW, 5))), None),
        (All((compared("offset", ABOVE, 5), UNKNOWN)), Wanted(first_offset=6)),
        (AnyOf((compared("offset", ABOVE, 5), UNKNOWN)), EVERYTHING),
        (AnyOf((compared("offset", EQUAL, 6), compared("topic", EQUAL, "b"))), ONLY_SIX),
        (~All((compared("offset", ABOVE, 5), compared("topic", UNEQUAL, "orders"))), EVERYTHING),
        (~AnyOf((compared("offset", ABOVE, 5), UNKNOWN)), Wanted(last_offset=5)),
    ],
)  # fmt: skip
def test_a_predicate_says_what_it_wants_of_a_partition(predicate: Predicate, wanted: Wanted | None) -> None:
    assert narrowing_by(predicate)(ORDERS) == wanted


def holds(predicate: Predicate, row: dict[str, object]) -> bool | None:
    """Whether it holds for a row; None if it is not known."""
    match predicate:
        case All(parts=parts):
            found = [holds(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case AnyOf(parts=parts):
            found = [holds(part, row) for part in parts]
            return True if True in found else None if None in found else False
    if predicate is UNKNOWN:
        return None
    column, how, value = predicate.column, predicate.how, predicate.value  # type: ignore[union-attr]
    return bool(eval(f"a {how} b", {"a": row[column], "b": value}))


def random_predicate(chance: random.Random, depth: int) -> Predicate:
    kind = chance.randrange(4) if depth else 3
    if kind < 2:
        parts = tuple(random_predicate(chance, depth - 1) for _ in range(chance.randrange(3)))
        return All(parts) if kind else AnyOf(parts)
    if kind == 2:
        return ~random_predicate(chance, depth - 1)
    column = chance.choice(["topic", "partition", "offset", "timestamp", "value"])
    value = chance.choice(["orders", "bills"]) if column == "topic" else chance.randrange(6)
    return compared(column, chance.choice(list(OPPOSITE)), value * 700 if column == "timestamp" else value)  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(examples(500)))
def test_no_row_that_may_match_is_outside_of_what_is_wanted(seed: int) -> None:
    chance = random.Random(seed)
    predicate = random_predicate(chance, 4)

    for _ in range(200):
        partition = TopicPartition(chance.choice(["orders", "bills"]), chance.randrange(6))
        offset, time_ms = chance.randrange(-1, 7), chance.randrange(6)
        row = {**partition._asdict(), "offset": offset, "timestamp": time_ms * 1000}
        if holds(predicate, row) is False:
            continue
        wanted = narrowing_by(predicate)(partition)
        assert wanted is not None
        assert wanted.first_offset <= offset <= wanted.last_offset
        assert wanted.since_ms is None or wanted.since_ms <= time_ms
