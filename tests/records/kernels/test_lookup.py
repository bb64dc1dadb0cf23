"""The first record at or after a time, in one window, against a slow search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels.lookup import find_record
from tests import naive
from tests.guarded import GuardedBuffer
from tests.records.strategies import Encoded, damaged, logs

Answer = tuple[bool, int, int, int, int]


def found(data: bytes, timestamp: int, start_offset: int) -> Answer:
    """The kernel's result, which must be the same wherever the window is."""
    (answer,) = {
        find_record(window, len(window), timestamp, start_offset) for window in GuardedBuffer.holding(data)
    }
    return answer


def times_and_offsets(log: Encoded) -> st.SearchStrategy[tuple[int, int]]:
    """Those of the records, and the ones beside them."""
    timestamps = sorted({r.timestamp + near for r in log.records for near in (-1, 0, 1)} - {2**63})
    offsets = sorted({r.offset + near for r in log.records for near in (0, 1)})
    return st.tuples(st.sampled_from(timestamps), st.sampled_from(offsets))


@given(logs(), st.data())
def test_the_record_is_the_one_that_a_slow_search_finds(log: Encoded, data: st.DataObject) -> None:
    timestamp, start_offset = data.draw(times_and_offsets(log))

    assert found(log.data, timestamp, start_offset) == naive.find_record(log.data, timestamp, start_offset)


@given(logs(), st.data())
def test_damage_is_left_to_others_from_its_batch_on(log: Encoded, data: st.DataObject) -> None:
    timestamp, start_offset = data.draw(times_and_offsets(log))
    broken = data.draw(damaged(log.data))

    assert found(broken, timestamp, start_offset) == naive.find_record(broken, timestamp, start_offset)


def test_a_batch_that_is_not_all_there_is_left_to_others() -> None:
    first, second = (
        naive.encode_batch([naive.Record(offset, 100 + offset, None, b"value")]) for offset in (0, 1)
    )

    assert found(first + second, 101, 0)[:4] == (True, len(first), 101, 1)
    assert found((first + second)[:-1], 101, 0) == (False, len(first), 0, 0, 0)
