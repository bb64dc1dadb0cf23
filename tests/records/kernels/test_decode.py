"""Records out of batches, against the slow decoders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.compression import Codec
from stratalog.records.kernels import decode as kernel
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import walk_batches
from tests import naive
from tests.records import golden
from tests.records.strategies import Encoded, damaged, records, v2_batches

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
Found = tuple[int, int, bytes | None, bytes | None, int]


def facts(record: naive.Record) -> Found:
    return record.offset, record.timestamp, record.key, record.value, len(record.headers)


def decoded(
    data: bytes,
    batches: BatchTable,
    *,
    legacy: bool = False,
    rows: int = 64,
    max_bytes: int = INT64_MAX,
    offsets: tuple[int, int] = (INT64_MIN, INT64_MAX),
) -> tuple[list[Found], int, int]:
    """(what all calls until the end found, what came of the last, how many there were)."""
    decode = kernel.decode_legacy if legacy else kernel.decode
    table = np.zeros(rows, kernel.RECORD)
    found: list[Found] = []
    at, outcome, calls = (0, 0, 0), kernel.MORE, 0
    while outcome == kernel.MORE:
        count, outcome, at = decode(byte_array(data), batches, table, at, max_bytes, *offsets)
        found += _facts_of(data, table, count)
        calls += 1
    return found, outcome, calls


def _facts_of(data: bytes, table: kernel.RecordTable, count: int) -> Iterator[Found]:
    for row in table[:count]:
        yield (
            int(row["offset"]),
            int(row["timestamp"]),
            _piece(data, int(row["key_position"]), int(row["key_size"])),
            _piece(data, int(row["value_position"]), int(row["value_size"])),
            int(row["headers_count"]),
        )


def _piece(data: bytes, position: int, size: int) -> bytes | None:
    return None if size < 0 else data[position : position + size]


def batches_of(data: bytes) -> BatchTable:
    return walk_batches(data, check_crc=False).headers


EDGES = [0, -1, 1, 63, -64, 64, -65, 8191, 8192, 2**20, 2**27, 2**30, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("value", EDGES)
def test_a_varint_is_read_with_its_length(value: int) -> None:
    encoded = naive.varint(value)

    assert kernel.varint(byte_array(encoded + b"\xff"), 0, len(encoded) + 1) == (value, len(encoded))


@pytest.mark.parametrize("value", [*EDGES, 2**34, 2**55, 2**62, INT64_MAX, INT64_MIN])
def test_a_varlong_is_read_with_its_length(value: int) -> None:
    encoded = naive.varint(value, 64)

    assert kernel.varlong(byte_array(encoded + b"\xff"), 0, len(encoded) + 1) == (value, len(encoded))


# Written out: a twin that had the same idea of zigzag would prove little.
@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("00", 0),
        ("01", -1),
        ("02", 1),
        ("7e", 63),
        ("8001", 64),
        ("7f", -64),
        ("d804", 300),
        ("feffffff0f", 2**31 - 1),
        ("ffffffff0f", -(2**31)),
    ],
)
def test_known_varints_are_read(encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)

    assert kernel.varint(byte_array(data), 0, len(data)) == (value, len(data))
    assert naive.varint(value) == data


@given(st.binary(max_size=12), st.sampled_from([32, 64]))
def test_any_bytes_are_the_same_number_to_both(data: bytes, bits: int) -> None:
    cursor = naive.Cursor(data)
    read = kernel.varint if bits == 32 else kernel.varlong
    try:
        expected = cursor.varint(bits), cursor.position
    except naive.NaiveError:
        expected = 0, -1

    assert read(byte_array(data), 0, len(data)) == expected


@given(st.lists(v2_batches(codec=Codec.NONE), min_size=1, max_size=3))
def test_records_are_found_as_the_twin_finds_them(batches: list[Encoded]) -> None:
    data = b"".join(batch.data for batch in batches)
    expected = [facts(record) for record in naive.decode(data, lambda *_: b"")]

    assert decoded(data, batches_of(data)) == (expected, kernel.DONE, 1)


@given(st.lists(v2_batches(codec=Codec.NONE), min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 400))
def test_decoding_in_pieces_finds_the_same(batches: list[Encoded], rows: int, max_bytes: int) -> None:
    data = b"".join(batch.data for batch in batches)
    expected = [facts(record) for record in naive.decode(data, lambda *_: b"")]

    assert decoded(data, batches_of(data), rows=rows, max_bytes=max_bytes)[:2] == (expected, kernel.DONE)


@given(v2_batches(codec=Codec.NONE), st.data())
def test_only_wanted_offsets_are_found(batch: Encoded, draw: st.DataObject) -> None:
    edges = st.sampled_from([record.offset for record in batch.records]).map(lambda offset: offset + 1)
    first, last = draw.draw(edges), draw.draw(edges)
    wanted = [record.offset for record in batch.records if first <= record.offset <= last]

    found, outcome, _ = decoded(batch.data, batches_of(batch.data), rows=2, offsets=(first, last))

    assert ([row[0] for row in found], outcome) == (wanted, kernel.DONE)


@given(v2_batches(codec=Codec.NONE), st.data())
def test_damaged_records_are_refused_where_the_twin_refuses(batch: Encoded, draw: st.DataObject) -> None:
    section = draw.draw(damaged(batch.data[61:]))
    batches = batches_of(batch.data)
    (header,) = naive.walk(batch.data)[0]
    batches["records_end"] = 61 + len(section)
    expected, healthy = [], True
    try:
        expected.extend(facts(record) for record in naive.decode_v2(header, section))
    except naive.NaiveError:
        healthy = False

    found, outcome, _ = decoded(batch.data[:61] + section, batches)

    assert (outcome == kernel.DONE) == healthy
    assert found == expected


def one_record(body: bytes, count: int = 1) -> tuple[bytes, BatchTable]:
    """A v2 batch with one record of this body."""
    header = bytearray(naive.encode_batch([naive.Record(0, 0, None, None)])[:61])
    header[57:61] = count.to_bytes(4, "big", signed=True)
    data = bytes(header) + naive.varint(len(body)) + body
    data = data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
    return data, batches_of(data)


@pytest.mark.parametrize(
    ("body", "count", "outcome"),
    [
        pytest.param("000000010100", 1, kernel.DONE, id="nothing but nulls"),
        pytest.param("000000030300", 1, kernel.DONE, id="sizes of -2 are null too"),
        pytest.param("0000000101", 1, kernel.BAD_VARINT, id="no count of headers"),
        pytest.param("00000001010000", 1, kernel.TRAILING, id="a byte too many"),
        pytest.param("000000020100", 1, kernel.BAD_VARINT, id="a key that swallows the rest"),
        pytest.param("0000008008016100", 1, kernel.BAD_SIZE, id="a key longer than its record"),
        pytest.param("000000010101", 1, kernel.BAD_COUNT, id="fewer than no headers"),
        pytest.param("000000010104", 1, kernel.BAD_COUNT, id="more headers than bytes"),
        pytest.param("0000000101020101", 1, kernel.BAD_SIZE, id="a header without a key"),
        pytest.param("0080808080800000010100", 1, kernel.DONE, id="a delta of zero in six bytes"),
        pytest.param("0000808080808000010100", 1, kernel.BAD_VARINT, id="an offset delta in six bytes"),
        pytest.param("000000010100", -1, kernel.BAD_COUNT, id="a negative count of records"),
        pytest.param("000000010100", 0, kernel.DONE, id="a batch that counts none is not looked into"),
        pytest.param("000000010100", 2, kernel.SHORT, id="a record that is missing"),
        pytest.param("", 1, kernel.BAD_SIZE, id="a record of no bytes"),
        pytest.param("00", 1, kernel.BAD_VARINT, id="no timestamp delta"),
        pytest.param("0000", 1, kernel.BAD_VARINT, id="no offset delta"),
        pytest.param("000000", 1, kernel.BAD_VARINT, id="no size of a key"),
        pytest.param("00000001", 1, kernel.BAD_VARINT, id="no size of a value"),
        pytest.param("000000010400", 1, kernel.BAD_SIZE, id="a value longer than its record"),
        pytest.param("000000010104ff80", 1, kernel.BAD_VARINT, id="a size of a header key that does not end"),
        pytest.param("0000000101020461", 1, kernel.BAD_SIZE, id="a header key longer than its record"),
        pytest.param("0000000101020261", 1, kernel.BAD_VARINT, id="no size of a header value"),
        pytest.param("000000010102026104ff", 1, kernel.BAD_SIZE, id="a header value longer than its record"),
    ],
)
def test_each_fault_has_its_name(body: str, count: int, outcome: int) -> None:
    data, batches = one_record(bytes.fromhex(body), count)

    assert decoded(data, batches)[1] == outcome


def test_bytes_behind_the_last_record_are_left_over() -> None:
    data = golden.TWO_RECORDS + b"\0"
    batches = batches_of(golden.TWO_RECORDS)
    batches["records_end"] = len(data)

    assert decoded(data, batches)[1] == kernel.LEFTOVER


def test_a_length_of_a_record_that_does_not_end_is_a_bad_number() -> None:
    data = golden.TWO_RECORDS[:61] + b"\xff" * 36

    assert decoded(data, batches_of(data))[1] == kernel.BAD_VARINT


def test_what_stands_before_a_bad_record_is_good() -> None:
    data = naive.encode_batch([naive.Record(i, 5, b"k", b"v") for i in range(4)])
    third = 61 + 2 * len(
        naive.encode_records([naive.Record(0, 0, b"k", b"v")], base_offset=0, base_timestamp=0)
    )
    broken = data[:third] + b"\x01" + data[third + 1 :]

    found, outcome, _ = decoded(broken, batches_of(broken))

    assert ([row[0] for row in found], outcome) == ([0, 1], kernel.BAD_SIZE)


@given(records(), st.sampled_from([0, 1]))
def test_old_messages_are_found_as_the_twin_finds_them(made: list[naive.Record], magic: int) -> None:
    bare = [naive.Record(record.offset, record.timestamp, record.key, record.value) for record in made]
    data = b"".join(naive.encode_message(record, magic=magic) for record in bare)
    batches = batches_of(data)
    batches["base_offset"] = 0
    expected = [facts(record) for record in naive.decode(data, lambda *_: b"")]

    assert decoded(data, batches, legacy=True, rows=2)[:2] == (expected, kernel.DONE)


@given(records(), st.sampled_from([0, 1]), st.data())
def test_a_damaged_old_message_is_refused_where_the_twin_refuses(
    made: list[naive.Record], magic: int, draw: st.DataObject
) -> None:
    first = naive.Record(made[0].offset, made[0].timestamp, made[0].key, made[0].value)
    entry = naive.encode_message(first, magic=magic)
    body = draw.draw(damaged(entry[18:]))
    data = entry[:8] + (6 + len(body)).to_bytes(4, "big") + entry[12:18] + body
    try:
        expected = [(message.key, message.value) for message in naive.messages(data)]
    except naive.NaiveError:
        expected = []

    size, key_position, key_size, value_position, value_size = kernel.legacy_entry(
        byte_array(data), 0, len(data)
    )
    found = [(_piece(data, key_position, key_size), _piece(data, value_position, value_size))]

    assert (found if size > 0 else []) == expected


def test_the_messages_in_a_wrapper_are_counted_without_a_cut_last_one() -> None:
    entry = naive.encode_message(naive.Record(7, -1, b"k", b"v"), magic=0)
    data = byte_array(b"." + entry + entry + entry[:-1])

    assert kernel.inner_messages(data, 1, data.size) == (2, 7, 1 + 2 * len(entry))


def test_bytes_in_a_wrapper_that_are_no_message_are_a_problem() -> None:
    assert kernel.inner_messages(byte_array(bytes(40)), 0, 40)[0] < 0


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        pytest.param(golden.V0_MESSAGE[:25], kernel.BAD_SIZE, id="cut"),
        pytest.param(golden.V0_MESSAGE[:16] + b"\2" + golden.V0_MESSAGE[17:], kernel.BAD_SIZE, id="v0 as v2"),
        pytest.param(golden.V0_MESSAGE[:-1], kernel.BAD_SIZE, id="longer than its bytes"),
        pytest.param(golden.V0_MESSAGE[:16] + b"\1" + golden.V0_MESSAGE[17:], kernel.BAD_SIZE, id="v0 as v1"),
    ],
)
def test_an_entry_that_is_no_message_is_refused(entry: bytes, problem: int) -> None:
    assert kernel.legacy_entry(byte_array(entry), 0, len(entry))[0] == -problem


@given(v2_batches(codec=Codec.NONE))
def test_sums_bound_what_will_be_gathered(batch: Encoded) -> None:
    table = np.zeros(16, kernel.RECORD)
    count, _, _ = kernel.decode(
        byte_array(batch.data), batches_of(batch.data), table, (0, 0, 0), INT64_MAX, INT64_MIN, INT64_MAX
    )
    keys, values, headers, header_bytes = kernel.sums(table[:count])

    assert keys == sum(len(record.key or b"") for record in batch.records)
    assert values == sum(len(record.value or b"") for record in batch.records)
    pairs = [pair for record in batch.records for pair in record.headers]
    assert headers == len(pairs)
    assert header_bytes >= sum(len(key.encode()) + len(value or b"") for key, value in pairs)
