"""The arguments of a scan, as options of a read."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.errors import UsageError, WrongTypeError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.options import EARLIEST, LATEST, OnCorruption
from stratalog.scanning.asking import Offsets, read_options

ORDERS = TopicPartition("orders", 0)


def test_without_arguments_everything_is_read() -> None:
    options = read_options("/a")

    assert (options.paths, options.topics, options.assigned) == (("/a",), None, None)
    assert (options.starting.mark, options.ending.mark) == (EARLIEST, LATEST)


def test_the_arguments_are_options() -> None:
    options = read_options(
        ["/a", "/b"],
        topics=["orders", "bills"],
        since=5,
        until=9,
        isolation="read_committed",
        on_corruption="skip",
        fail_on_data_loss=False,
        include_control=True,
    )

    assert (options.paths, options.topics) == (("/a", "/b"), ("orders", "bills"))
    assert (options.starting.timestamp, options.ending.timestamp) == (5, 9)
    assert (options.read_committed, options.on_corruption) == (True, OnCorruption.SKIP)
    assert (options.fail_on_data_loss, options.include_control) == (False, True)


@pytest.mark.parametrize("name", ["orders-0", ("orders", 0), ORDERS])
@pytest.mark.parametrize(
    ("given", "expected"),
    [(range(3, 9), (3, 9)), ((3, None), (3, LATEST)), ((None, 9), (EARLIEST, 9)), ((4, 4), (4, 4))],
)
def test_offsets_select_partitions(name: object, given: object, expected: tuple[int, int]) -> None:
    options = read_options("/a", offsets={name: given})  # type: ignore[dict-item]

    assert options.assigned == (ORDERS,)
    assert options.starting.offsets == {ORDERS: expected[0]}
    assert options.ending.offsets == {ORDERS: expected[1]}


@pytest.mark.parametrize(
    ("offsets", "says"),
    [
        ({"orders": range(3)}, "offsets names 'orders': name a partition as"),
        ({("orders", "0"): range(3)}, "name a partition as"),
        ({"orders-0": 3}, "give range"),
        ({"orders-0": range(3, 9, 2)}, "give range"),
        ({"orders-0": (-3, 4)}, "offsets says -3 for orders-0: an offset is a number from 0 on"),
        ({"orders-0": (9, 4)}, "would end before it begins"),
        ({"orders-0": ("a", 4)}, "an offset is a number"),
        ({"orders-0": (True, 4)}, "offsets says True for orders-0: an offset is a number"),
        ({("orders", True): range(3)}, "name a partition as"),
        ({5: range(3)}, "offsets names 5: name a partition as"),
        ({None: range(3)}, "offsets names None: name a partition as"),
        ({"orders-00": range(3)}, "offsets names 'orders-00': name a partition as"),
        ({f"orders-0.{'a' * 32}-delete": range(3)}, "name a partition as"),
        ({("orders", 0): (0, 1), "orders-0": (1, 2)}, "offsets names orders-0 twice"),
        ({}, "offsets names no partition"),
        (["orders-0"], "offsets is .*: it must be a dict"),
    ],
)
def test_offsets_that_are_none_are_refused(offsets: Offsets, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_options("/a", offsets=offsets)


def test_offsets_of_numpy_are_accepted() -> None:
    options = read_options("/a", offsets={("orders", np.int64(0)): (np.int64(3), np.int32(9))})  # type: ignore[dict-item]

    assert options.assigned == (ORDERS,)
    assert (options.starting.offsets, options.ending.offsets) == ({ORDERS: 3}, {ORDERS: 9})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("fail_on_data_loss", "no"),
        ("include_control", 1),
        ("valueReader", 1),
        ("keySchema", b"x"),
        ("valueEncoding", ["x"]),
    ],
)
def test_a_wrong_type_is_refused_in_words(name: str, given: object) -> None:
    python = {"valueReader": "value_reader", "keySchema": "key_schema", "valueEncoding": "value"}
    with pytest.raises(WrongTypeError, match=f"^{python.get(name, name)} is "):
        read_options("/a", **{name: given})  # type: ignore[arg-type]


def test_contradictions_are_refused() -> None:
    with pytest.raises(UsageError, match="offsets and times contradict each other"):
        read_options("/a", offsets={"orders-0": range(3)}, since=5)
    with pytest.raises(UsageError, match="topics does not name orders"):
        read_options("/a", offsets={"orders-0": range(3)}, topics="bills")
    with pytest.raises(UsageError, match="before it begins"):
        read_options("/a", since=9, until=5)
