"""The map from the hash of a key to its last offset, against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels import offset_map
from stratalog.records.kernels.hash import hash_keys
from tests.guarded import GuardedBuffer
from tests.naive_cleaning import note_keys
from tests.records.kernels.cleaned import batches, key_of, read

HASH_KEY = np.uint64(1), np.uint64(2)


@given(st.data(), st.booleans(), st.integers(1, 6))
def test_the_map_holds_what_a_dict_holds(data: st.DataObject, old: bool, capacity: int) -> None:
    given_batches = data.draw(batches(old=old))
    skipped = data.draw(st.lists(st.booleans(), min_size=len(given_batches), max_size=len(given_batches)))
    start_offset = data.draw(st.integers(0, given_batches[-1].batch.last_offset + 1))
    expected = note_keys(given_batches, skipped, start_offset, capacity)
    run = read(given_batches)
    slots = GuardedBuffer((capacity + 1) * 24).behind.view(np.uint64)
    state = np.array([0, -1], np.int64)
    hashes = np.empty((len(run.rows), 2), np.uint64)
    hash_keys(run.data, run.rows, *HASH_KEY, hashes)

    seen, is_full = offset_map.put_records(
        slots, capacity, state, run.batches, np.array(skipped, np.bool_), run.rows, hashes, start_offset
    )

    latest = np.empty(len(hashes), np.int64)
    offset_map.get_offsets(slots, hashes, latest)
    assert (seen, is_full) == (expected.records_seen, expected.is_full)
    assert state.tolist() == [len(expected.last), expected.latest_offset]
    with_key = [i for i, row in enumerate(run.rows) if row["key_size"] >= 0]
    assert [latest[i] for i in with_key] == [
        expected.last.get(key_of(run, run.rows[i]), -1) for i in with_key
    ]
