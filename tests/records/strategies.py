"""Hypothesis strategies for records, batches and whole logs of them, with what a reader must find inside.

Bytes come from the slow encoders of `tests.naive`; only the codecs are Stratalog's, which
test_compression.py holds to Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from stratalog.records.build import Record
from stratalog.records.compression import Codec, compress, decompress
from tests import naive

INT64_MAX = 2**63 - 1
HIGHEST_OFFSET = 2**62
LEGACY_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)

# In the order in which a failing example shrinks: small, then long, then null.
fields = st.one_of(st.binary(max_size=9), st.binary(min_size=60, max_size=150), st.none())
header_keys = st.one_of(st.sampled_from(["h", "", "ümlaut", "𝄞"]), st.text(max_size=6))
headers = st.lists(st.tuples(header_keys, fields), max_size=4).map(tuple)
# -1 is none; the others are around today, at the limits of varints, and anywhere.
timestamps = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_100_000),
    st.sampled_from([-1, 0, 63, 64, 8191, 8192, 2**31, 2**62]),
    st.integers(-1, INT64_MAX),
)
gaps = st.one_of(st.just(1), st.integers(1, 100), st.integers(1, 2**20))


def plain(codec: int, data: bytes, magic: int) -> bytes:
    """Stratalog's decompression in the form that the twins in `tests.naive` need."""
    return decompress(codec, data, magic=magic)


@st.composite
def records(draw: st.DrawFn, *, base_offset: int | None = None, max_size: int = 6) -> list[Record]:
    """Records with ascending offsets, gaps among them."""
    if base_offset is None:
        base_offset = draw(st.one_of(st.integers(0, 1000), st.integers(0, HIGHEST_OFFSET)))
    made: list[Record] = []
    offset = base_offset
    for _ in range(draw(st.integers(1, max_size))):
        made.append(Record(offset, draw(timestamps), draw(fields), draw(fields), draw(headers)))
        offset += draw(gaps)
    return made


def as_naive(record: Record) -> naive.Record:
    """The same record with its header keys as bytes."""
    encoded = tuple((key.encode(), value) for key, value in record.headers)
    return naive.Record(record.offset, record.timestamp, record.key, record.value, encoded)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Batches, and the records that a consumer reads in them."""

    data: bytes
    records: list[Record]


@st.composite
def v2_batches(draw: st.DrawFn, *, base_offset: int | None = None, codec: Codec | None = None) -> Encoded:
    """One v2 batch with any attributes that data batches have."""
    inside = draw(records(base_offset=base_offset))
    codec = draw(st.sampled_from(Codec)) if codec is None else codec
    append_time = draw(st.one_of(st.none(), st.integers(0, 2**42)))
    is_transactional = draw(st.booleans())
    attributes = int(codec) | (0x08 if append_time is not None else 0) | (0x10 if is_transactional else 0)
    data = naive.encode_batch(
        [as_naive(record) for record in inside],
        attributes=attributes,
        last_offset_delta=inside[-1].offset - inside[0].offset + draw(st.integers(0, 3)),
        max_timestamp=append_time,
        producer_id=draw(st.integers(-1, INT64_MAX)),
        producer_epoch=draw(st.integers(-1, 2**15 - 1)),
        base_sequence=draw(st.integers(-1, 2**31 - 1)),
        partition_leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        compress=lambda section: compress(codec, section),
    )
    if append_time is not None:
        inside = [record._replace(timestamp=append_time) for record in inside]
    return Encoded(data, inside)


@st.composite
def legacy_sets(draw: st.DrawFn, *, base_offset: int | None = None) -> Encoded:
    """A v0 or v1 set: plain messages one after the other, or one wrapper around them."""
    magic = draw(st.sampled_from([0, 1]))
    inside = [record._replace(headers=()) for record in draw(records(base_offset=base_offset))]
    if magic == 0:
        inside = [record._replace(timestamp=-1) for record in inside]
    bare = [as_naive(record) for record in inside]
    append_time = magic == 1 and draw(st.booleans())
    attributes = 0x08 if append_time else 0
    codec = draw(st.one_of(st.none(), st.sampled_from(LEGACY_CODECS)))
    if codec is None:
        entries = [naive.encode_message(record, magic=magic, attributes=attributes) for record in bare]
        return Encoded(b"".join(entries), inside)
    data = naive.encode_wrapper(
        bare,
        magic=magic,
        attributes=attributes | codec,
        compress=lambda inner: compress(codec, inner, magic=magic),
    )
    if append_time:
        latest = max(record.timestamp for record in inside)
        inside = [record._replace(timestamp=latest) for record in inside]
    return Encoded(data, inside)


@st.composite
def logs(draw: st.DrawFn, *, max_size: int = 4) -> Encoded:
    """Several batches of any magic and codec, with ascending offsets."""
    data, inside = b"", []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, max_size))):
        batch = draw(st.one_of(v2_batches(base_offset=offset), legacy_sets(base_offset=offset)))
        data += batch.data
        inside += batch.records
        offset = inside[-1].offset + 4  # past the offsets that a batch may claim after its last record
    return Encoded(data, inside)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a bit flipped, an end cut off, a piece overwritten or inserted."""
    kind = draw(st.sampled_from(["flip", "cut", "overwrite", "insert"]))
    position = draw(st.integers(0, len(data) - 1))
    if kind == "cut":
        return data[:position]
    if kind == "flip":
        bit = 1 << draw(st.integers(0, 7))
        return data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :]
    piece = draw(
        st.one_of(
            st.binary(min_size=1, max_size=10),
            st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", bytes(4), b"\xff" * 10]),
        )
    )
    behind = position + (len(piece) if kind == "overwrite" else 0)
    return data[:position] + piece + data[behind:]
