"""The kernels of compaction against their slow twins: the same bytes, and not one beside them.

The output ends at a forbidden page, and has only the room that the filter makes for it.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.log.cleaning.runs import DecodedRun
from stratalog.records.kernels import clean as kernel
from tests import naive_sums
from tests.guarded import GuardedBuffer
from tests.naive_cleaning import Decoded, Rules, clean_batch
from tests.records.kernels.cleaned import NOW, batches, key_of, read


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
    """The three kernels one after the other, in the room that `RunFilter` makes."""
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


@given(st.lists(st.binary(max_size=90), max_size=4), st.binary(max_size=5))
def test_batches_are_sealed_with_their_length_and_checksum(records: list[bytes], between: bytes) -> None:
    expected, data, spans = bytearray(), bytearray(), []
    for record in records:
        header = bytes(61)
        sealed = bytearray(header + record)
        sealed[8:12] = (len(sealed) - 12).to_bytes(4, "big")
        sealed[17:21] = naive_sums.crc32c(bytes(sealed[21:])).to_bytes(4, "big")
        spans.append((len(data), len(data) + len(sealed)))
        data += header + record + between
        expected += sealed + between

    out = GuardedBuffer(len(data)).behind
    out[:] = np.frombuffer(bytes(data), np.uint8)
    kernel.seal_batches(out, np.array(spans, np.int64).reshape(-1, 2))

    assert out.tobytes() == expected
