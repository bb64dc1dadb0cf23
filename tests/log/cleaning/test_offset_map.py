"""The map of keys against a dict. Kafka: SkimpyOffsetMapTest"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import UsageError
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.records.build import Record, build_batch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import walk_batches

ANY = (-(2**63), 2**63 - 1)


def put(offset_map: OffsetMap, keys: list[bytes | None], start_offset: int = 0) -> tuple[int, bool]:
    """Put keys at the offsets 0, 1, ..."""
    data = byte_array(build_batch([Record(i, 0, key, b"") for i, key in enumerate(keys)]))
    batches = walk_batches(data).headers
    rows = np.empty(len(keys), decoding.RECORD)
    decoding.decode(data, batches, rows, (0, 0, 0), ANY[1], *ANY)
    hashes = np.empty((len(keys), 2), np.uint64)
    offset_map.hash_rows(data, rows, hashes)
    return offset_map.put_records(batches, np.zeros(1, np.bool_), rows, hashes, start_offset)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), min_size=1, max_size=60), st.integers(0, 20))
def test_it_is_a_dict_of_the_last_offsets(keys: list[bytes | None], start_offset: int) -> None:
    offset_map = OffsetMap(24 * 100)
    expected = {key: i for i, key in enumerate(keys) if key is not None and i >= start_offset}

    assert put(offset_map, keys, start_offset) == (len(keys), False)

    assert {key: offset_map.get(key) for key in expected} == expected
    assert offset_map.size == len(expected)
    assert offset_map.get(b"a key that is longer than any of those") == -1


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(2, 20))
def test_it_stops_before_the_first_record_when_full(numbers: list[int], slots: int) -> None:
    keys: list[bytes | None] = [b"%d" % number for number in numbers]
    offset_map = OffsetMap(24 * slots)
    capacity = min(int(slots * 0.9), slots - 1)
    taken: dict[bytes | None, int] = {}
    for i, key in enumerate(keys):
        if len(taken) == capacity:
            break
        taken[key] = i
    else:
        i = len(keys)

    assert put(offset_map, keys) == (i, i < len(keys))

    assert {key: offset_map.get(key) for key in taken if key is not None} == taken
    assert offset_map.latest_offset == i - 1


def test_cleared_it_is_empty_and_hashes_with_another_key() -> None:
    offset_map = OffsetMap(24 * 10)
    hashes = []
    for _ in range(2):
        put(offset_map, [b"a"])
        out = np.empty((1, 2), np.uint64)
        rows = np.zeros(1, decoding.RECORD)
        offset_map.hash_rows(np.zeros(1, np.uint8), rows, out)
        hashes.append(out.tolist())
        offset_map.clear()

    assert hashes[0] != hashes[1]
    assert (offset_map.size, offset_map.latest_offset, offset_map.get(b"a")) == (0, -1, -1)


def test_how_full_it_is_and_how_far_it_came_can_be_asked() -> None:
    offset_map = OffsetMap(24 * 100)
    put(offset_map, [b"a", b"b", b"a", None])
    assert (offset_map.utilization, offset_map.latest_offset) == (0.02, 3)

    offset_map.latest_offset = 98

    assert (offset_map.latest_offset, offset_map.get(b"a")) == (98, 2)


def test_its_room_is_kafkas() -> None:
    default = OffsetMap(128 << 20)

    assert (default.slots, default.capacity) == (5592405, 5033164)


@pytest.mark.parametrize("size", [0, 23, 24])
def test_a_map_without_room_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        OffsetMap(size)


def test_probing_goes_on_at_the_first_slot() -> None:
    keys: list[bytes | None] = [b"%d" % number for number in range(9)]
    for seed in range(20):  # with nine of ten slots taken, some search runs over the end in nearly each
        offset_map = OffsetMap(24 * 10, hash_key=(seed, seed))
        put(offset_map, keys)

        assert [offset_map.get(key) for key in keys if key is not None] == list(range(9))
