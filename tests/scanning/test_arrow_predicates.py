"""What is understood of pyarrow's expressions."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stratalog
from stratalog.scanning.arrow_predicates import from_arrow
from stratalog.scanning.predicates import (
    ABOVE,
    ALWAYS,
    AT_LEAST,
    BELOW,
    EQUAL,
    NEVER,
    UNKNOWN,
    All,
    AnyOf,
    Predicate,
    compared,
    narrowing_by,
    one_of,
)
from tests.profile import examples
from tests.scanning.querying import make_logs, random_query

MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
MICROS = 1_704_067_200_000_000
TOKYO = pa.timestamp("ms", tz="Asia/Tokyo")
NULL = pa.scalar(None, pa.bool_())
OFFSET, TOPIC, TIME = pc.field("offset"), pc.field("topic"), pc.field("timestamp")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_logs(tmp_path_factory.mktemp("predicates"))


@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        (None, ALWAYS),
        (OFFSET > 5, compared("offset", ABOVE, 5)),
        (pc.scalar(5) > OFFSET, compared("offset", BELOW, 5)),
        (TOPIC == "it's \n 'odd': 'x'", compared("topic", EQUAL, "it's \n 'odd': 'x'")),
        (pa.scalar(MOMENT) <= TIME, compared("timestamp", AT_LEAST, MICROS)),
        (pa.scalar(MICROS // 1000, TOKYO) <= TIME, compared("timestamp", AT_LEAST, MICROS)),
        (pa.scalar(MICROS, pa.timestamp("us")) <= TIME, UNKNOWN),
        ((OFFSET > 5) & (TOPIC == "a"), All((compared("offset", ABOVE, 5), compared("topic", EQUAL, "a")))),
        ((OFFSET > 5) | (TOPIC == "a"), AnyOf((compared("offset", ABOVE, 5), compared("topic", EQUAL, "a")))),
        (~(OFFSET > 5), ~compared("offset", ABOVE, 5)),
        (TOPIC.isin(["a", None, "b"]), one_of("topic", ["a", "b"])),
        (TOPIC.is_valid(), ALWAYS),
        (TOPIC.is_null(), NEVER),
        (pc.field("key").is_valid(), UNKNOWN),
        (pc.if_else(TOPIC.is_valid(), TOPIC.isin(["a"]), NULL), one_of("topic", ["a"])),
        (pc.scalar(True), ALWAYS),
        (pc.scalar(False), NEVER),
        (OFFSET > 5.5, UNKNOWN),
        (OFFSET == OFFSET, UNKNOWN),
        (pc.field("headers", "key") == "a", UNKNOWN),
        (OFFSET.cast(pa.int32()) > 5, UNKNOWN),
        ((pc.field("value") == b"x") & (OFFSET > 5), All((UNKNOWN, compared("offset", ABOVE, 5)))),
    ],
)  # fmt: skip
def test_an_expression_is_understood_or_unknown(
    expression: pc.Expression | None, predicate: Predicate
) -> None:
    assert from_arrow(expression) == predicate


def test_an_expression_that_pyarrow_writes_otherwise_is_unknown() -> None:
    class Strange:
        def __reduce__(self) -> tuple[object, ...]:
            return print, (b"not a batch",)

    assert from_arrow(Strange()) == UNKNOWN


def test_narrowed_by_an_expression_a_scan_has_all_rows_that_match(logs: Path) -> None:
    columns = ["topic", "partition", "offset", "timestamp", "value"]
    scan = stratalog.scan(logs, columns=columns, threads=1)
    everything, narrower = scan.to_table(), 0
    chance = random.Random(3)

    for _ in range(examples(500)):
        query = random_query(chance)
        narrowed = scan.narrowed(columns, narrowing_by(from_arrow(query.to_arrow()))).to_table()

        assert narrowed.filter(query.to_arrow()).equals(everything.filter(query.to_arrow())), query
        narrower += narrowed.num_rows < everything.num_rows

    assert narrower > examples(500) // 4
