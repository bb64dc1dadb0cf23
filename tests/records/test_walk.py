"""Walking a buffer: where it ends and why, in the words a user reads."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches
from tests.records import golden

THREE = golden.V0_MESSAGE + golden.V1_MESSAGE + golden.TWO_RECORDS


def test_batches_of_all_formats_are_found_with_their_positions() -> None:
    walk = walk_batches(THREE)

    assert walk.headers["magic"].tolist() == [0, 1, 2]
    assert walk.headers["position"].tolist() == [0, 36, 80]
    assert walk.headers["crc"].tolist() == [1978725405, 109425508, 3851219455]
    assert (walk.stop, walk.next_position) == (WalkStop.END, len(THREE))


def test_a_torn_final_batch_is_left_out() -> None:
    walk = walk_batches(THREE[:-1])

    assert walk.headers["magic"].tolist() == [0, 1]
    assert (walk.stop, walk.next_position) == (WalkStop.TORN_TAIL, 80)


def test_a_batch_with_a_wrong_checksum_is_told_and_walked_over() -> None:
    damaged = bytearray(THREE)
    damaged[70] ^= 1

    walk = walk_batches(damaged)

    assert walk.headers["valid"].tolist() == [True, False, True]
    assert walk_batches(damaged, check_crc=False).headers["valid"].all()


def test_zeros_behind_the_last_batch_are_no_torn_tail() -> None:
    walk = walk_batches(THREE + bytes(100))

    assert (len(walk.headers), walk.stop, walk.next_position) == (3, WalkStop.BAD_LENGTH, len(THREE))


def test_a_full_table_says_where_to_go_on() -> None:
    table = new_table(2)

    first = walk_batches(THREE, table=table)
    magics = first.headers["magic"].tolist()
    second = walk_batches(THREE, start=first.next_position, table=table)

    assert (magics, first.stop) == ([0, 1], WalkStop.TABLE_FULL)
    assert (second.headers["magic"].tolist(), second.stop) == ([2], WalkStop.END)


def test_nothing_is_the_end() -> None:
    walk = walk_batches(b"")

    assert (len(walk.headers), walk.stop, walk.next_position) == (0, WalkStop.END, 0)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_whatever_offers_its_memory_is_walked(kind: type) -> None:
    assert len(walk_batches(kind(THREE)).headers) == 3


@pytest.mark.parametrize(("start", "end"), [(-1, 10), (5, 4), (0, len(THREE) + 1)])
def test_a_range_outside_the_buffer_is_refused(start: int, end: int) -> None:
    with pytest.raises(IndexError):
        walk_batches(THREE, start=start, end=end)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (golden.TWO_RECORDS[:-1], "the last batch is cut off: only 96 bytes of it are there"),
        (golden.TWO_RECORDS[:16] + b"\x05" + golden.TWO_RECORDS[17:], "magic is 5"),
        (bytes(50), "zeros where a batch should start, 50 bytes before the end"),
        (b"\0" * 11 + b"\x30" + bytes(4) + b"\2" + bytes(60), "magic 2 cannot have the length 48"),
    ],
)
def test_each_stop_is_explained_with_its_numbers(data: bytes, words: str) -> None:
    walk = walk_batches(data)

    assert words in explain_stop(byte_array(data), walk.next_position, len(data), walk.stop)
