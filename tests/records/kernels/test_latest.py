"""The map of `latest` views, from the hash of a key to its highest offset, against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels import latest
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.offset_map import ENTRIES
from tests.guarded import GuardedBuffer
from tests.records.kernels.cleaned import batches, key_of, read

HASH_KEY = np.uint64(1), np.uint64(2)


@given(st.data(), st.booleans())
def test_the_newest_offset_of_each_key_is_kept_in_a_map_that_grows(data: st.DataObject, old: bool) -> None:
    run = read(data.draw(batches(old=old)))
    rows = run.rows[data.draw(st.permutations(range(len(run.rows))))] if len(run.rows) else run.rows
    hashes = np.empty((len(rows), 2), np.uint64)
    hash_keys(run.data, rows, *HASH_KEY, hashes)
    capacity, state, start = 1, np.array([0, -1], np.int64), 0
    slots = GuardedBuffer((capacity + 1) * 24).behind.view(np.uint64)

    while (start := latest.put_newest(slots, capacity, state, rows, hashes, start)) < len(rows):
        capacity *= 2
        larger = GuardedBuffer((capacity + 1) * 24).behind.view(np.uint64)
        latest.move_entries(slots, larger)
        slots = larger
    found = np.empty(state[ENTRIES], np.int64)

    assert latest.stored_offsets(slots, found) == len(found)
    newest: dict[bytes, int] = {}
    for row in rows:
        if row["key_size"] >= 0:
            key = key_of(run, row)
            newest[key] = max(newest.get(key, -1), int(row["offset"]))
    assert sorted(found.tolist()) == sorted(newest.values())


@given(st.data(), st.booleans(), st.booleans())
def test_rows_with_stored_offsets_are_marked(data: st.DataObject, old: bool, tombstones: bool) -> None:
    run = read(data.draw(batches(old=old)))
    order = data.draw(st.permutations(range(len(run.rows)))) if data.draw(st.booleans()) else slice(None)
    rows = run.rows[order]
    stored = data.draw(st.sets(st.integers(0, 30)))
    kept, found = np.empty(len(rows), np.bool_), np.zeros(len(stored), np.bool_)

    latest.mark_stored(rows, np.array(sorted(stored), np.int64), tombstones, kept, found)

    assert kept.tolist() == [
        int(row["offset"]) in stored and (tombstones or row["value_size"] >= 0) for row in rows
    ]
    assert found.tolist() == [offset in rows["offset"] for offset in sorted(stored)]
