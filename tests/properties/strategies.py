"""Batches for the peers to build and to read: nulls, empties, headers, gaps, and numbers up to the edges."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from stratalog.records.batch import NO_TIMESTAMP
from stratalog.records.build import Record
from stratalog.records.compression import Codec
from tests.properties.peers import Producer

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1

blobs = st.none() | st.just(b"") | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3).map(tuple)
# Real clocks, the edges, and everything between them: the deltas then take from one to ten bytes.
# From -1 to 2^63 - 1 is further than an int64 reaches: Kafka's delta wraps round on both ways, and so does
# ours, but kafka-python's integers do not.
LATEST = INT64_MAX - 1
set_timestamps = st.integers(1_600_000_000_000, 1_600_000_100_000) | st.integers(0, LATEST)
timestamps = st.just(NO_TIMESTAMP) | set_timestamps
# Compaction leaves gaps; three of the largest still add up to less than an int32.
gaps = st.just(1) | st.integers(1, 1000) | st.integers(1, 2**28)
producers = st.just(Producer()) | st.builds(
    Producer,
    producer_id=st.integers(0, INT64_MAX),
    producer_epoch=st.integers(0, INT16_MAX),
    base_sequence=st.integers(0, INT32_MAX),
    is_transactional=st.booleans(),
)


class Batch(NamedTuple):
    """What is to be written."""

    records: list[Record]
    producer: Producer
    leader_epoch: int
    log_append_time: int | None

    @property
    def base_offset(self) -> int:
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset

    @property
    def read_timestamps(self) -> list[int]:
        if self.log_append_time is not None:
            return [self.log_append_time] * len(self.records)
        return [record.timestamp for record in self.records]

    @property
    def read_records(self) -> list[Record]:
        """As a consumer sees them."""
        return [
            record._replace(timestamp=timestamp)
            for record, timestamp in zip(self.records, self.read_timestamps, strict=True)
        ]


@st.composite
def record_lists(draw: st.DrawFn, codec: Codec, *, legacy: bool = False) -> list[Record]:
    offset = draw(st.integers(0, 1000) | st.integers(0, INT64_MAX - 2**31))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        record_headers = () if legacy else draw(headers)
        found.append(Record(offset, draw(timestamps), draw(blobs), draw(blobs), record_headers))
        offset += draw(gaps)
    if codec is not Codec.NONE:
        # Both peers leave a batch uncompressed that compression would not make smaller. 70,000 is more than
        # two blocks of xerial's snappy and one of the smallest LZ4 blocks.
        padding = bytes(draw(st.sampled_from([1000, 1000, 1000, 70_000])))
        found.append(Record(offset, draw(timestamps), None, padding))
    return found


@st.composite
def batches(draw: st.DrawFn, codec: Codec, *, for_peers: bool = False) -> Batch:
    records = draw(record_lists(codec))
    if for_peers:
        # aiokafka's builder keeps -1 for "no first timestamp yet": after such a record it takes the second
        # one's as the base, and the first one reads as that.
        records[0] = records[0]._replace(timestamp=draw(set_timestamps))
    return Batch(
        records=records,
        producer=draw(producers),
        leader_epoch=draw(st.integers(-1, INT32_MAX)),
        log_append_time=draw(st.none() | st.integers(0, INT64_MAX)),
    )
