"""The cleaner's map from the hash of a key to its last offset, against a dictionary."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stratalog.limits import INT64_MAX
from stratalog.records.kernels import offset_map
from stratalog.records.kernels.decode import RECORD
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.walk import BATCH
from tests.guarded import GuardedBuffer
from tests.naive_cleaning import note_keys
from tests.records.kernels.cleaned import batches, key_of, read

HASH_KEY = np.uint64(1), np.uint64(2)
NO_BITS = np.empty(0, np.uint8)


def new_state() -> NDArray[np.int64]:
    return np.array([0, -1, 0, -1, 0], np.int64)


def new_slots(capacity: int) -> NDArray[np.uint64]:
    return GuardedBuffer((capacity + 1) * 16).behind.view(np.uint64)


@given(st.data(), st.booleans(), st.integers(1, 6))
def test_the_map_holds_what_a_dict_holds(data: st.DataObject, old: bool, capacity: int) -> None:
    given_batches = data.draw(batches(old=old))
    skipped = data.draw(st.lists(st.booleans(), min_size=len(given_batches), max_size=len(given_batches)))
    start_offset = data.draw(st.integers(0, given_batches[-1].batch.last_offset + 1))
    expected = note_keys(given_batches, skipped, start_offset, capacity)
    run = read(given_batches)
    slots, state = new_slots(capacity), new_state()
    hashes = np.empty((len(run.rows), 2), np.uint64)
    hash_keys(run.data, run.rows, *HASH_KEY, hashes)
    noted, newest = (GuardedBuffer(data.draw(st.integers(0, 8))).behind for _ in range(2))

    seen, is_full = offset_map.put_records(
        slots,
        capacity,
        state,
        noted,
        run.batches,
        np.array(skipped, np.bool_),
        run.rows,
        hashes,
        start_offset,
    )
    offset_map.mark_newest(slots, state, start_offset, newest)

    latest = np.empty(len(hashes), np.int64)
    offset_map.get_offsets(slots, state, hashes, latest)
    assert (seen, is_full) == (expected.records_seen, expected.is_full)
    assert state[:2].tolist() == [len(expected.last), expected.latest_offset]
    with_key = [i for i, row in enumerate(run.rows) if row["key_size"] >= 0]
    assert [latest[i] for i in with_key] == [
        expected.last.get(key_of(run, run.rows[i]), -1) for i in with_key
    ]
    assert set_bits(newest) == {
        offset - start_offset for offset in expected.last.values() if offset - start_offset < 8 * len(newest)
    }


def set_bits(bits: NDArray[np.uint8]) -> set[int]:
    return {int(i) for i in np.flatnonzero(np.unpackbits(bits, bitorder="little"))}


@given(st.data(), st.booleans(), st.integers(1, 6), st.integers(0, 8))
def test_noted_offsets_tell_what_the_hashes_tell(
    data: st.DataObject, old: bool, capacity: int, size: int
) -> None:
    given_batches = data.draw(batches(old=old))
    skipped = data.draw(st.lists(st.booleans(), min_size=len(given_batches), max_size=len(given_batches)))
    start_offset = data.draw(st.integers(0, given_batches[-1].batch.last_offset + 1))
    run = read(given_batches)
    slots, state = new_slots(capacity), new_state()
    hashes = np.empty((len(run.rows), 2), np.uint64)
    hash_keys(run.data, run.rows, *HASH_KEY, hashes)
    noted, newest = GuardedBuffer(size).behind, GuardedBuffer(size).behind
    found, by_hash = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)

    offset_map.put_records(
        slots,
        capacity,
        state,
        noted,
        run.batches,
        np.array(skipped, np.bool_),
        run.rows,
        hashes,
        start_offset,
    )
    offset_map.mark_newest(slots, state, start_offset, newest)
    unknown = offset_map.find_noted(
        slots, state, noted, newest, start_offset, run.data, run.rows, *HASH_KEY, found
    )
    offset_map.get_offsets(slots, state, hashes, by_hash)

    ascending = bool((np.diff(run.rows["offset"][run.rows["offset"] >= start_offset]) > 0).all())
    if ascending:
        assert not state[offset_map.DISORDER]
    else:
        assert seen_all(state, run.rows) is False or state[offset_map.DISORDER]
    with_key = run.rows["key_size"] >= 0
    offsets = run.rows["offset"]
    if ascending:
        assert ((offsets >= found) == (offsets >= by_hash))[with_key].all()
        assert (found[with_key] == by_hash[with_key])[offsets[with_key] >= by_hash[with_key]].all()
    assert unknown <= int(with_key.sum())
    if not size:
        assert unknown == int(with_key.sum())
        assert (found[with_key] == by_hash[with_key]).all()


def seen_all(state: NDArray[np.int64], rows: NDArray[np.void]) -> bool:
    """Whether the last row was looked at; a full map is left early."""
    return bool(len(rows)) and int(state[offset_map.SEEN]) == int(rows["offset"][-1])


def rows_at(offsets: list[int]) -> NDArray[np.void]:
    """A row for each offset, with a key of its own."""
    rows = np.zeros(len(offsets), RECORD)
    rows["offset"], rows["key_size"], rows["key_position"] = offsets, 1, range(len(offsets))
    return rows


FAR = 1 << 50


@pytest.mark.parametrize(
    ("offsets", "seen", "is_full"),
    [
        ([FAR, FAR + offset_map.REACH - 2, FAR - offset_map.REACH + 1], 3, False),
        ([FAR, FAR + offset_map.REACH - 1], 1, True),
        ([FAR, FAR - offset_map.REACH], 1, True),
        ([0, 2 * offset_map.REACH - 2], 2, False),
        ([0, 2 * offset_map.REACH - 1], 1, True),
        ([INT64_MAX], 1, False),
    ],
)
def test_offsets_too_far_from_the_first_find_the_map_full(
    offsets: list[int], seen: int, is_full: bool
) -> None:
    data, rows = np.arange(len(offsets), dtype=np.uint8), rows_at(offsets)
    hashes = np.empty((len(rows), 2), np.uint64)
    hash_keys(data, rows, *HASH_KEY, hashes)
    slots, state = new_slots(9), new_state()

    assert offset_map.put_records(
        slots, 9, state, NO_BITS, np.zeros(1, BATCH), np.zeros(1, np.bool_), rows, hashes, 0
    ) == (seen, is_full)

    found = np.empty(len(rows), np.int64)
    offset_map.get_offsets(slots, state, hashes, found)
    assert found.tolist() == offsets[:seen] + [-1] * (len(offsets) - seen)


@pytest.mark.parametrize(
    ("offsets", "is_disorder"), [([1, 2, 9], False), ([1, 3, 3], True), ([5, 4], True), ([7, 2, 8], False)]
)
def test_offsets_that_do_not_ascend_are_noticed(offsets: list[int], is_disorder: bool) -> None:
    """From the start offset on; here that is 4 in the last case, and 0 in the others."""
    data, rows = np.arange(len(offsets), dtype=np.uint8), rows_at(offsets)
    hashes = np.zeros((len(rows), 2), np.uint64)
    state, start_offset = new_state(), 4 if offsets[0] == 7 else 0
    hash_keys(data, rows, *HASH_KEY, hashes)

    offset_map.put_records(
        new_slots(9), 9, state, NO_BITS, np.zeros(1, BATCH), np.zeros(1, np.bool_), rows, hashes, start_offset
    )

    assert bool(state[offset_map.DISORDER]) is is_disorder


def test_a_key_that_is_only_in_a_skipped_sample_has_no_newer_record() -> None:
    offsets = [FAR, FAR + 1]
    data, rows = np.zeros(2, np.uint8), rows_at(offsets)
    hashes = np.empty((2, 2), np.uint64)
    hash_keys(data, rows, *HASH_KEY, hashes)
    rows["batch"] = [0, 1]
    slots, state, found = new_slots(9), new_state(), np.empty(2, np.int64)

    is_full = offset_map.put_sampled(
        slots, 9, state, np.zeros(2, BATCH), np.array([True, True]), np.array([True, False]), rows, hashes, 0
    )
    offset_map.get_offsets(slots, state, hashes, found)

    assert (is_full, found.tolist()) == (False, [0, 0])


@given(st.data(), st.booleans(), st.integers(1, 8))
def test_backwards_the_map_holds_the_same(data: st.DataObject, old: bool, capacity: int) -> None:
    given_batches = data.draw(batches(old=old))
    end_offset = given_batches[-1].batch.last_offset + 1
    start_offset = data.draw(st.integers(0, end_offset))
    skipped = [False] * len(given_batches)
    expected = note_keys(given_batches, skipped, start_offset, 1 << 30)
    run = read(given_batches)
    slots, state = new_slots(capacity), new_state()
    state[offset_map.SEEN] = end_offset
    hashes = np.empty((len(run.rows), 2), np.uint64)
    hash_keys(run.data, run.rows, *HASH_KEY, hashes)
    noted, newest = (GuardedBuffer(max(1, (end_offset - start_offset + 7) // 8)).behind for _ in range(2))
    offsets = run.rows["offset"].tolist()

    outcome = offset_map.put_newest(
        slots, capacity, state, noted, newest, run.batches, run.rows, hashes, start_offset
    )

    if old or (run.batches["attributes"] & 0x30).any():
        assert outcome == offset_map.NOT_PLAIN
    elif any(a >= b for a, b in itertools.pairwise([*offsets, end_offset])):
        assert outcome in (offset_map.OUT_OF_ORDER, offset_map.FULL)
    elif len(expected.last) >= capacity:
        assert outcome == offset_map.FULL
    else:
        latest = np.empty(len(hashes), np.int64)
        offset_map.get_offsets(slots, state, hashes, latest)
        with_key = [i for i, row in enumerate(run.rows) if row["key_size"] >= 0]
        assert outcome == offset_map.ALL_STORED
        assert state[offset_map.ENTRIES] == len(expected.last)
        assert [latest[i] for i in with_key] == [
            expected.last.get(key_of(run, run.rows[i]), -1) for i in with_key
        ]
        assert set_bits(newest) == {offset - start_offset for offset in expected.last.values()}
        assert set_bits(noted) == {offsets[i] - start_offset for i in with_key if offsets[i] >= start_offset}
