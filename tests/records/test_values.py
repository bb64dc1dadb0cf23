"""A batch of values, against the one that is built from columns and the slow twin's."""

from __future__ import annotations

import marshal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records import values as module
from stratalog.records.build import Record, build_batch, columns_of
from stratalog.records.kernels.encode import NOT_WRITTEN, VALUE_OVERHEAD, encode_dumped
from stratalog.records.kernels.memory import byte_array
from stratalog.records.values import build_values
from tests import naive
from tests.records.strategies import as_naive

INT64_MAX = 2**63 - 1
lists = st.lists(st.binary(max_size=9) | st.binary(min_size=60, max_size=150), min_size=1, max_size=150)


def built(values: list[bytes], timestamp: int) -> bytes:
    batch = build_values(values, timestamp)
    assert batch is not None
    return batch.tobytes()


@given(lists, st.integers(0, INT64_MAX))
def test_values_make_the_batch_of_the_same_columns(values: list[bytes], timestamp: int) -> None:
    assert built(values, timestamp) == build_batch(columns_of(values, None, timestamp))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 1 << 20])
def test_sizes_at_the_edges_of_a_varint(size: int) -> None:
    values = [b"v" * size, b"", b"w" * size]

    assert built(values, 5) == build_batch(columns_of(values, None, 5))


def test_one_object_many_times_is_as_many_values() -> None:
    values = [b"the same"] * 7

    assert built(values, 5) == build_batch(columns_of(values, None, 5))


def test_many_values_have_offsets_of_more_than_one_byte() -> None:
    values = [b"%d" % number for number in range(20_000)]

    assert built(values, 5) == build_batch(columns_of(values, None, 5))


@given(lists)
def test_the_records_are_the_twins_byte_for_byte(values: list[bytes]) -> None:
    records = [as_naive(Record(offset, 7, None, value)) for offset, value in enumerate(values)]

    section = built(values, 7)[61:]

    assert section == naive.encode_records(records, base_offset=0, base_timestamp=7)


def test_more_than_a_batch_can_hold_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INT32_MAX", 1000)

    assert build_values([bytes(1000)], 5) is None


@pytest.mark.parametrize("dump", [b"", b"[", b"\xdb\x01\0\0\0\xf3\x01\0\0\0v", b"[\x01\0\0\0N"])
def test_a_format_that_is_not_known_is_left_to_others(monkeypatch: pytest.MonkeyPatch, dump: bytes) -> None:
    monkeypatch.setattr(marshal, "dumps", lambda *_: dump)

    assert build_values([b"v"], 5) is None


def test_values_that_marshal_refuses_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise ValueError("unmarshallable object")

    monkeypatch.setattr(marshal, "dumps", refuse)

    assert build_values([b"v"], 5) is None


@given(lists, st.data())
def test_a_damaged_dump_is_not_read_outside_nor_written_without_room(
    values: list[bytes], draw: st.DataObject
) -> None:
    dump = bytearray(marshal.dumps(values, 2))
    dump[draw.draw(st.integers(0, len(dump) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    del dump[draw.draw(st.integers(0, len(dump))) :]
    room = draw.draw(st.integers(0, len(dump) + VALUE_OVERHEAD * len(values)))
    out = np.zeros(room + 40, np.uint8)

    end = encode_dumped(byte_array(dump), len(values), out[:room], 3)

    assert end == NOT_WRITTEN or end <= room
    assert not out[room:].any()


def test_a_batch_without_room_is_not_written() -> None:
    dump = byte_array(marshal.dumps([b"a", b"b"], 2))
    needed = 2 + 2 * VALUE_OVERHEAD

    assert encode_dumped(dump, 2, np.zeros(needed + 2, np.uint8), 3) == NOT_WRITTEN
    assert encode_dumped(dump, 2, np.zeros(needed + 3, np.uint8), 3) > 3
    assert encode_dumped(dump, 2, np.zeros(needed + 3, np.uint8), -1) == NOT_WRITTEN
    assert encode_dumped(dump, 1, np.zeros(needed + 3, np.uint8), 3) == NOT_WRITTEN
