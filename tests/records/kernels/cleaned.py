"""Batches to clean, drawn by Hypothesis, and the rules for cleaning them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.records.kernels.memory import Bytes
from tests import naive, naive_sums
from tests.guarded import GuardedBuffer
from tests.naive_cleaning import CONTROL, HORIZON, TRANSACTIONAL, Decoded
from tests.records.strategies import plain

NOW = 1_700_000_000_000
keys = st.one_of(st.sampled_from([b"a", b"b", b""]), st.none(), st.binary(min_size=60, max_size=80))
values = st.one_of(st.binary(max_size=3), st.none(), st.binary(min_size=60, max_size=70))
headers = st.lists(st.tuples(st.sampled_from([b"h", b""]), values), max_size=2).map(tuple)
times = st.one_of(st.integers(NOW - 100, NOW + 100), st.sampled_from([-1, 0, 2**62]))
horizons = st.integers(NOW - 1, NOW + 1)


@dataclass(frozen=True)
class Plain:
    """Uncompressed batches in memory, as the reader wants a file."""

    data: bytes
    log_path: str = "in memory"

    @property
    def size(self) -> int:
        return len(self.data)

    def read_into(self, buffer: Bytes, position: int) -> int:
        part = np.frombuffer(self.data, np.uint8)[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)


@st.composite
def batches(draw: st.DrawFn, *, old: bool) -> list[Decoded]:
    """Batches of formats 0 and 1, or of format 2: of data, of control, empty, with horizons or without."""
    made: list[Decoded] = []
    offset, position = draw(st.integers(0, 3)), 0
    for _ in range(draw(st.integers(1, 5))):
        raw = draw(old_message(offset)) if old else draw(v2_batch(offset))
        (batch,), _, _ = naive.walk(raw)
        made.append(Decoded(batch._replace(position=position), raw, naive.decode(raw, plain)))
        offset, position = batch.last_offset + draw(st.integers(1, 3)), position + len(raw)
    return made


@st.composite
def old_message(draw: st.DrawFn, offset: int) -> bytes:
    magic = draw(st.integers(0, 1))
    record = naive.Record(offset, draw(times), draw(keys), draw(values))
    return naive.encode_message(record, magic=magic, attributes=draw(st.sampled_from([0, 8])) * magic)


@st.composite
def v2_batch(draw: st.DrawFn, offset: int) -> bytes:
    records = []
    for i in range(draw(st.integers(1, 4))):
        at = offset + i * draw(st.sampled_from([1, 1, 100]))
        records.append(
            naive.Record(max(at, offset + i), draw(times), draw(keys), draw(values), draw(headers))
        )
    records.sort()
    attributes = draw(st.sampled_from([0, 0, TRANSACTIONAL, TRANSACTIONAL | CONTROL])) | draw(
        st.sampled_from([0, naive.LOG_APPEND_TIME])
    )
    horizon_ms = draw(st.one_of(st.none(), horizons))
    raw = naive.encode_batch(
        records,
        attributes=attributes | (0 if horizon_ms is None else HORIZON),
        base_timestamp=horizon_ms,
        last_offset_delta=records[-1].offset - offset + draw(st.integers(0, 2)),
        producer_id=draw(st.integers(-1, 3)),
        producer_epoch=draw(st.integers(0, 1)),
        base_sequence=draw(st.integers(-1, 5)),
        partition_leader_epoch=draw(st.integers(-1, 5)),
    )
    if draw(st.integers(0, 5)):
        return raw
    # A batch that an earlier cleaning has left empty.
    covered = raw[21:57] + bytes(4)
    return (
        raw[:8]
        + (49).to_bytes(4, "big")
        + raw[12:17]
        + naive_sums.crc32c(covered).to_bytes(4, "big")
        + covered
    )


def read(given_batches: list[Decoded]) -> DecodedRun:
    with RunReader().read(Plain(b"".join(found.raw for found in given_batches))) as runs:
        (run,) = runs
    guarded = GuardedBuffer.holding(run.original[: run.size].tobytes())[1]
    return run._replace(original=guarded, data=guarded)


def key_of(run: DecodedRun, row: np.void) -> bytes:
    start = int(row["key_position"])
    return run.data[start : start + max(0, int(row["key_size"]))].tobytes()
