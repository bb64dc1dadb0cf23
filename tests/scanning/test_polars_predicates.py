"""What is understood of Polars' expressions."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from stratalog.scanning.polars_predicates import from_polars, without_dynamic
from stratalog.scanning.predicates import (
    ABOVE,
    ALWAYS,
    AT_LEAST,
    AT_MOST,
    BELOW,
    EQUAL,
    NEVER,
    UNKNOWN,
    All,
    AnyOf,
    Predicate,
    compared,
    one_of,
)

MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
MICROS = 1_704_067_200_000_000
OFFSET, TOPIC, TIME = pl.col("offset"), pl.col("topic"), pl.col("timestamp")


@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        (None, ALWAYS),
        (OFFSET > 5, compared("offset", ABOVE, 5)),
        (pl.lit(5, pl.Int64) < OFFSET, compared("offset", ABOVE, 5)),
        (pl.lit(5) > OFFSET, compared("offset", BELOW, 5)),
        (TOPIC == "orders", compared("topic", EQUAL, "orders")),
        (TOPIC.eq_missing("orders"), compared("topic", EQUAL, "orders")),
        (pl.lit(MOMENT) <= TIME, compared("timestamp", AT_LEAST, MICROS)),
        (pl.lit(MOMENT.replace(tzinfo=None)) <= TIME, UNKNOWN),
        ((OFFSET > 5) & (TOPIC == "a"), All((compared("offset", ABOVE, 5), compared("topic", EQUAL, "a")))),
        ((OFFSET > 5) | (TOPIC == "a"), AnyOf((compared("offset", ABOVE, 5), compared("topic", EQUAL, "a")))),
        (~(OFFSET > 5), ~compared("offset", ABOVE, 5)),
        (TOPIC.is_in(["a", None, "b"]), one_of("topic", ["a", "b"])),
        (pl.col("partition").is_in([1, 2]), one_of("partition", [1, 2])),
        (OFFSET.is_between(3, 9), All((compared("offset", AT_LEAST, 3), compared("offset", AT_MOST, 9)))),
        (OFFSET.is_between(3, 9, "none"), All((compared("offset", ABOVE, 3), compared("offset", BELOW, 9)))),
        (pl.lit(True), ALWAYS),
        (pl.lit(False), NEVER),
        (OFFSET > 5.5, UNKNOWN),
        (OFFSET == OFFSET, UNKNOWN),
        (OFFSET % 2 == 0, UNKNOWN),
        (OFFSET.cast(pl.Int32) > 5, UNKNOWN),
        (OFFSET + 1 > 5, UNKNOWN),
        ((pl.col("value") == b"x") & (OFFSET > 5), All((UNKNOWN, compared("offset", ABOVE, 5)))),
        ((OFFSET > 3) ^ (OFFSET > 5), UNKNOWN),
    ],
)  # fmt: skip
def test_an_expression_is_understood_or_unknown(expression: pl.Expr | None, predicate: Predicate) -> None:
    assert from_polars(expression) == predicate


def test_a_predicate_without_a_dynamic_part_stays_as_it_is() -> None:
    assert without_dynamic(None) is None
    plain = OFFSET > 5
    assert without_dynamic(plain) is plain
