"""Batches after damage are found where the slow twin finds them, and no byte outside is touched."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels import resync
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import walk_batches
from tests import naive
from tests.guarded import GuardedBuffer

FAR = 2**63 - 1


def batch(offset: int, *, epoch: int = 3, count: int = 1, value: bytes = b"value") -> bytes:
    records = [naive.Record(offset + number, 5, None, value) for number in range(count)]
    return naive.encode_batch(records, partition_leader_epoch=epoch)


def find(
    data: bytes, start: int = 0, *, last_offset: int = -1, last_epoch: int = -1, next_base: int = FAR
) -> tuple[int, int]:
    last = np.array([last_offset, last_epoch], np.int64)
    first, second = GuardedBuffer.holding(data)
    found = resync.find_start(first, start, len(data), len(data), last, next_base)
    assert resync.find_start(second, start, len(data), len(data), last, next_base) == found
    return found


def test_a_batch_is_found_at_any_byte() -> None:
    for shift in range(70):
        assert find(b"\x02" * shift + batch(7)) == (shift, resync.FOUND)


def test_too_few_bytes_for_a_batch_are_nothing() -> None:
    for size in range(61):
        assert find(b"\x02" * size)[1] == resync.NOTHING


def test_a_batch_that_reaches_past_the_buffer_is_asked_for() -> None:
    data = b"junk" + batch(7)
    last = np.array([-1, -1], np.int64)

    found = resync.find_start(byte_array(data), 0, len(data) - 1, len(data), last, FAR)
    assert found == (4, resync.NEEDS)
    # Past the end of the file there is nothing to ask for.
    assert (
        resync.find_start(byte_array(data), 0, len(data) - 1, len(data) - 1, last, FAR)[1] == resync.NOTHING
    )


def test_offsets_and_epoch_must_follow() -> None:
    data = b"junk" + batch(10, count=5, epoch=3)
    cases = {
        (9, 3, 15): resync.FOUND,
        (10, 3, 15): resync.NOTHING,
        (9, 4, 15): resync.NOTHING,
        (9, 3, 14): resync.NOTHING,
        (9, 3, 10): resync.NOTHING,
        (-1, -1, FAR): resync.FOUND,
    }
    for (last_offset, last_epoch, next_base), outcome in cases.items():
        assert find(data, last_offset=last_offset, last_epoch=last_epoch, next_base=next_base)[1] == outcome


def test_a_wrong_checksum_is_not_found_and_the_next_batch_is() -> None:
    broken = bytearray(batch(7))
    broken[-1] ^= 1

    assert find(bytes(broken) + batch(8)) == (len(broken), resync.FOUND)


@given(st.data())
def test_it_finds_what_its_twin_finds(data: st.DataObject) -> None:
    pieces = data.draw(
        st.lists(
            st.one_of(
                st.binary(max_size=40),
                st.builds(batch, st.integers(0, 20), epoch=st.integers(0, 4), count=st.integers(1, 3)),
                st.sampled_from([bytes(64), b"\x02" * 64, b"\0" * 8 + b"\0\0\0\x31" + b"\x02" * 60]),
            ),
            max_size=5,
        )
    )
    raw = bytearray(b"".join(pieces))
    for at in data.draw(st.lists(st.integers(0, max(len(raw) - 1, 0)), max_size=3)):
        if raw:
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
    last_offset, last_epoch = data.draw(st.integers(-1, 10)), data.draw(st.integers(-1, 4))
    next_base = data.draw(st.sampled_from([12, 21, FAR]))
    bounds = {"last_offset": last_offset, "last_epoch": last_epoch, "next_base": next_base}

    position, outcome = find(bytes(raw), **bounds)
    expected = naive.find_start(bytes(raw), 0, **bounds)
    assert (position if outcome == resync.FOUND else None) == expected
    assert outcome != resync.NEEDS


def accept(data: bytes, *, last_offset: int = -1, last_epoch: int = -1, next_base: int = FAR) -> list[bool]:
    headers = walk_batches(data).headers
    keep = np.zeros(len(headers), np.bool_)
    last = np.array([last_offset, last_epoch], np.int64)
    done, _ = resync.accept(headers, 0, last, next_base, keep, False)
    return keep[:done].tolist()


def test_rows_that_follow_are_kept() -> None:
    data = batch(5) + batch(4) + batch(6, epoch=2) + batch(7) + batch(7) + batch(9, count=3) + batch(11)

    assert accept(data) == [True, False, False, True, False, True, False]
    assert accept(data, next_base=11) == [True, False, False, True, False, False, False]
    assert accept(data, last_offset=6) == [False, False, False, True, False, True, False]
    assert accept(data, last_epoch=4) == [False] * 7


def test_a_row_with_a_wrong_checksum_ends_it() -> None:
    broken = bytearray(batch(6))
    broken[-1] ^= 1

    assert accept(batch(5) + bytes(broken) + batch(7)) == [True]
