"""The kernels of compaction against their slow twins: the same bytes, and not one beside them.

What is written lies against a page that nobody may touch, and has just the room that the filter makes for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.records.kernels import clean as kernel
from stratalog.records.kernels import offset_map
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.memory import Bytes
from tests import naive
from tests.guarded import GuardedBuffer
from tests.naive_cleaning import CONTROL, HORIZON, TRANSACTIONAL, Decoded, Rules, clean_batch, note_keys
from tests.records.strategies import plain

NOW = 1_700_000_000_000
HASH_KEY = np.uint64(1), np.uint64(2)

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
    return raw[:8] + (49).to_bytes(4, "big") + raw[12:17] + naive.crc32c(covered).to_bytes(4, "big") + covered


@st.composite
def rules(draw: st.DrawFn, given_batches: list[Decoded]) -> Rules:
    """Bounds at and beside those of the batches."""
    ends = [found.batch.last_offset for found in given_batches]
    offsets = st.sampled_from(sorted({-1, *ends, *(end - 1 for end in ends), *(end + 1 for end in ends)}))
    found_keys = {r.key for found in given_batches for r in found.records if r.key is not None}
    last = {key: draw(offsets) for key in sorted(found_keys) if draw(st.booleans())}
    producers = {
        producer_id: (draw(st.one_of(st.none(), st.sampled_from(ends))), draw(st.integers(0, 1)))
        for producer_id in range(4)
        if draw(st.booleans())
    }
    return Rules(
        NOW,
        draw(st.sampled_from([NOW, NOW + 1000, -1])),
        draw(offsets),
        draw(offsets),
        draw(st.booleans()),
        last,
        producers,
    )


def read(given_batches: list[Decoded]) -> DecodedRun:
    (run,) = RunReader().read(Plain(b"".join(found.raw for found in given_batches)))
    guarded = GuardedBuffer.holding(run.original[: run.size].tobytes())[1]
    return run._replace(original=guarded, data=guarded)


@given(st.data(), st.booleans())
def test_what_is_left_of_a_run_is_what_a_slow_cleaner_leaves(data: st.DataObject, old: bool) -> None:
    given_batches = data.draw(batches(old=old))
    given_rules = data.draw(rules(given_batches))
    discards = data.draw(
        st.lists(st.booleans(), min_size=len(given_batches), max_size=len(given_batches))
        if not old
        else st.just([False] * len(given_batches))
    )
    expected = [
        clean_batch(found, can_discard, given_rules)
        for found, can_discard in zip(given_batches, discards, strict=True)
    ]

    written, refused = clean(read(given_batches), discards, given_rules)

    if None in expected:
        assert refused == expected.index(None)
    else:
        assert refused == -1
        assert written == b"".join(part for part in expected if part is not None)


def clean(run: DecodedRun, discards: list[bool], given: Rules) -> tuple[bytes, int]:
    """The three kernels one behind the other, in the room that `RunFilter` makes."""
    found, rows = run.batches, run.rows
    verdicts = np.zeros(len(found), kernel.VERDICT)
    verdicts["can_discard"] = discards
    producers = np.zeros(len(given.producers), kernel.LAST_RECORD)
    for row, (producer_id, (offset, epoch)) in zip(producers, sorted(given.producers.items()), strict=True):
        row["producer_id"], row["producer_epoch"] = producer_id, epoch
        row["last_data_offset"] = -1 if offset is None else offset
    kernel.judge_batches(found, rows, producers, given.end_of_round, given.now_ms, verdicts)
    latest = np.array([given.last.get(key_of(run, row), -1) for row in rows], np.int64)
    keep = np.zeros(len(rows), np.bool_)
    kernel.judge_records(
        found,
        rows,
        latest,
        given.latest_offset,
        given.now_ms,
        given.keeps_old_tombstones,
        verdicts,
        keep,
    )
    unpacked = int((found["records_end"] - found["records_position"]).sum())
    most = run.size + unpacked + 61 * len(found) + kernel.GROWTH_OF_A_RECORD * len(rows)
    out = GuardedBuffer(most).behind
    to_compress = np.empty((len(found), 2), np.int64)
    size, pending, refused = kernel.write_batches(
        run.original, run.data, found, rows, verdicts, keep, given.new_horizon_ms, out, to_compress
    )
    assert not pending
    return out[:size].tobytes(), refused


def key_of(run: DecodedRun, row: np.void) -> bytes:
    start = int(row["key_position"])
    return run.data[start : start + max(0, int(row["key_size"]))].tobytes()


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
