"""Amounts by key in a table of few slots, against a dictionary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.decode import RECORD, RecordTable
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.tally import AMOUNTS, SLOT, cut_keys, tally

KEYS = [b"user:1", b"order:1", None, b"user:1", b"x", b"user:2:y"]


def rows_of(keys: list[bytes | None]) -> tuple[Bytes, RecordTable]:
    rows = np.zeros(len(keys), RECORD)
    sizes = [len(key or b"") for key in keys]
    rows["key_position"] = np.cumsum([0, *sizes])[:-1]
    rows["key_size"] = [-1 if key is None else len(key) for key in keys]
    return byte_array(b"".join(key or b"" for key in keys) + b"."), rows


def counted(room: int) -> tuple[int, dict[bytes, float]]:
    """The row that found no slot, and the versions of each key before it."""
    data, rows = rows_of(KEYS)
    hashes: NDArray[np.uint64] = np.zeros((len(rows), 2), np.uint64)
    hash_keys(data, rows, np.uint64(1), np.uint64(2), hashes)
    amounts = np.ones((len(rows), AMOUNTS))
    slots, names = np.zeros(16, SLOT), np.zeros((16, 8), np.uint8)
    state = np.array([0, room], np.int64)

    stopped = tally(slots, names, state, np.zeros(2), data, rows, hashes, amounts, 0)

    used = slots["is_used"] != 0
    found = zip(names[used], slots["key_size"][used], slots["versions"][used], strict=True)
    return stopped, {name[:size].tobytes(): versions for name, size, versions in found}


def test_each_key_is_counted_and_a_record_without_one_is_not() -> None:
    assert counted(9) == (6, {b"user:1": 2, b"order:1": 1, b"x": 1, b"user:2:y": 1})


def test_the_row_that_finds_no_slot_is_told() -> None:
    assert counted(2) == (4, {b"user:1": 2, b"order:1": 1})


def test_a_key_is_cut_to_its_size_or_behind_its_delimiter() -> None:
    cases = {(3, -1): [3, 3, 3, 1, 3], (-1, ord(":")): [5, 6, 5, 1, 5], (5, ord(":")): [5, 5, 5, 1, 5]}
    for (size, delimiter), expected in cases.items():
        data, rows = rows_of([key for key in KEYS if key is not None])

        cut_keys(data, rows, size, delimiter)

        assert rows["key_size"].tolist() == expected
