"""Which partition a row goes to, and rows that no partition takes."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from stratalog.errors import UsageError
from tests.jobs.writing.sinking import Writing, by_partition, contents_of, names_in, write

with warnings.catch_warnings():
    # kafka-python loads its schemas by a function that Python 3.11 calls deprecated, and later ones do not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2

SEVEN = {"topic": "orders", "partitions": "7"}


def test_a_key_goes_where_a_producer_would_send_it(tmp_path: Path) -> None:
    keys = [b"key %d" % number for number in range(200)]

    write(str(tmp_path), {"key": keys, "value": keys}, **SEVEN)

    expected: dict[int, list[bytes]] = {number: [] for number in range(7)}
    for key in keys:
        expected[(murmur2(key) & 0x7FFFFFFF) % 7].append(key)
    assert by_partition(contents_of(tmp_path), "orders") == expected


def test_rows_without_a_key_stay_together_and_take_turns(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **SEVEN)
    writing.task({"value": [b"a", b"b"]}, {"value": [b"c"]})
    writing.commit()

    assert by_partition(contents_of(tmp_path), "orders") == {0: [b"a", b"b"], 1: [b"c"]}


def test_a_partition_that_is_given_wins_over_the_key(tmp_path: Path) -> None:
    rows = {"key": [b"foobar", b"foobar"], "value": [b"a", b"b"], "partition": [3, None]}

    write(str(tmp_path), rows, **SEVEN)

    chosen = (murmur2(b"foobar") & 0x7FFFFFFF) % 7
    assert by_partition(contents_of(tmp_path), "orders") == {3: [b"a"], chosen: [b"b"]}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"value": [b"a"], "partition": [7]}, r"partition 7 of the topic orders, which has 7 \(0 to 6\)"),
        ({"value": [b"a"], "partition": [-1]}, "partition -1"),
        ({"value": [b"a"], "timestamp": [-5_000]}, "before 1970"),
        ({"value": [b"x" * 2_000_000]}, "max.message.bytes"),
    ],
)
def test_what_no_partition_takes_is_told_and_leaves_nothing(
    tmp_path: Path, rows: dict[str, list[object]], words: str
) -> None:
    writing = Writing(str(tmp_path), **SEVEN)

    with pytest.raises(UsageError, match=words):
        writing.task({"value": [b"good"]}, rows)

    writing.committer.discard()
    assert names_in(tmp_path) == []


def test_a_row_without_a_topic_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a row has no topic"):
        Writing(str(tmp_path), partitions="1").task({"topic": ["a", None], "value": [b"1", b"2"]})


def test_a_compacted_topic_takes_no_row_without_a_key(tmp_path: Path) -> None:
    settings = '{"orders": {"cleanup.policy": "compact"}}'

    with pytest.raises(UsageError, match="no key, and the topic is compacted"):
        Writing(str(tmp_path), **SEVEN, topicSettings=settings).task(
            {"key": [b"k", None], "value": [b"1", b"2"]}
        )
