"""Look-ups by offset and by time in one segment, against slow searches over its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.segment.search import TimestampAndOffset
from tests import naive, profile
from tests.records.strategies import plain
from tests.segment.making import History, append, batch_of_size, joined, new_segment


@pytest.mark.parametrize("seed", range(profile.examples(200)))
def test_look_ups_by_time_and_offset_agree_with_a_slow_search(tmp_path: Path, seed: int) -> None:
    history = History(seed, 40)
    batches = [batch for _ in range(40) for batch in history.set_of_batches()]
    segment = new_segment(tmp_path, 40, interval=history.random.choice([10, 700, 4096]), index_bytes=100_000)
    for batch in batches:
        append(segment, batch)
    data = joined(batches)
    rows = naive.decode(data, plain)
    headers, _, _ = naive.walk(data, check_crc=False)

    for record in history.random.sample(rows, 20):
        timestamp, start = max(0, record.timestamp + 1), history.random.choice([40, record.offset])
        later = [(r.timestamp, r.offset) for r in rows if r.timestamp >= timestamp and r.offset >= start]
        answer = segment.reader.find_offset_by_timestamp(timestamp, start)
        assert (None if answer is None else answer[:2]) == (later[0] if later else None)
        place = segment.reader.translate_offset(record.offset + 1)
        behind = [(b.base_offset, b.position) for b in headers if b.last_offset > record.offset]
        assert (None if place is None else (place.base_offset, place.position)) == (
            behind[0] if behind else None
        )


@pytest.mark.parametrize("batch_size", [100, 3000, 20_000, 40_000, 100_000])
def test_look_ups_work_whatever_the_size_of_batches(tmp_path: Path, batch_size: int) -> None:
    segment = new_segment(tmp_path, 0, interval=4096, index_bytes=1000)
    for offset in range(300_000 // batch_size):
        append(segment, batch_of_size(offset, 10 * offset, batch_size))

    for offset in range(300_000 // batch_size):
        assert segment.reader.find_offset_by_timestamp(10 * offset - 5, 0) == TimestampAndOffset(
            10 * offset, offset, None
        )
        place = segment.reader.translate_offset(offset)
        assert place is not None
        assert place == (offset, offset, offset * batch_size, batch_size)
