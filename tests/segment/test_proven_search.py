"""The search by time that proves its answer, against a slow search, on healthy and on damaged segments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stratalog.segment.proven_search import TimeSearch, search_proven
from stratalog.segment.segment import LogSegment
from tests import naive, profile
from tests.records.strategies import plain
from tests.segment.making import History, append, batch_of_size, joined, new_segment

END = 1 << 31


@pytest.mark.parametrize("seed", range(profile.examples(200)))
def test_in_a_healthy_segment_it_finds_what_a_slow_search_finds(tmp_path: Path, seed: int) -> None:
    history = History(seed, 40)
    batches = [batch for _ in range(40) for batch in history.set_of_batches()]
    segment = new_segment(tmp_path, 40, interval=history.random.choice([10, 700, 4096]), index_bytes=100_000)
    for batch in batches:
        append(segment, batch)
    rows = naive.decode(joined(batches), plain)

    for record in history.random.sample(rows, 20):
        timestamp, start = max(0, record.timestamp + 1), history.random.choice([40, record.offset])
        later = [(r.timestamp, r.offset) for r in rows if r.timestamp >= timestamp and r.offset >= start]
        found = search_proven(segment.reader, timestamp, start, END)
        assert found.hidden is None
        assert (None if found.record is None else found.record[:2]) == (later[0] if later else None)


def segment_of(folder: Path, size: int, count: int) -> LogSegment:
    segment = new_segment(folder, 0, interval=4096, index_bytes=10_000)
    for offset in range(count):
        append(segment, batch_of_size(offset, 10 * offset, size))
    return segment


@pytest.mark.parametrize("size", [200, 3000, 40_000])
@pytest.mark.parametrize("at", [3, 8, 11, 16, 30, 40, 100], ids=lambda at: f"byte {at} of a batch")
def test_one_flipped_bit_never_hides_a_record_without_a_word(tmp_path: Path, size: int, at: int) -> None:
    count = 50
    segment = segment_of(tmp_path, size, count)
    log = Path(segment.reader.log_path)
    healthy = log.read_bytes()
    for damaged in (0, 1, 24, count - 2):
        data = bytearray(healthy)
        data[damaged * size + at] ^= 0x40
        log.write_bytes(data)
        for wanted in range(count):
            found = search_proven(segment.reader, 10 * wanted, 0, count)
            assert_is_safe(found, wanted, damaged)
        segment.reader.forget()


def assert_is_safe(found: TimeSearch, wanted: int, damaged: int) -> None:
    first = found.first_offset
    assert first is not None
    assert first <= wanted
    if found.hidden is None:
        assert wanted != damaged
        assert first == wanted
    else:
        assert found.hidden.first_offset == damaged
        assert found.record is not None
        assert found.record.offset == (wanted + 1 if wanted == damaged else wanted)


@pytest.mark.parametrize("kind", ["inserted", "deleted"])
def test_bytes_that_are_inserted_or_lost_shift_the_batches_away_from_their_index(
    tmp_path: Path, kind: str
) -> None:
    rnd = random.Random(kind)
    segment = segment_of(tmp_path, 700, 200)
    log = Path(segment.reader.log_path)
    data = bytearray(log.read_bytes())
    at = 20 * 700 + 300
    data[at : at + (0 if kind == "inserted" else 5)] = rnd.randbytes(9) if kind == "inserted" else b""
    log.write_bytes(data)
    segment.reader.size = len(data)

    for wanted in range(200):
        found = search_proven(segment.reader, 10 * wanted, 0, 200)
        assert found.first_offset is not None
        assert found.first_offset <= wanted
        if found.hidden is None:
            assert found.record is not None
            assert found.record.offset == wanted != 20
        else:
            # Elsewhere the time index shows that the damage is too early to matter.
            assert wanted in range(20, 35)
            assert found.hidden.first_offset == 20


def test_a_damaged_end_hides_records_of_every_later_time(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 700, 20)
    log = Path(segment.reader.log_path)
    data = bytearray(log.read_bytes())
    data[19 * 700 + 8] ^= 0x40
    log.write_bytes(data)

    found = search_proven(segment.reader, 1000, 0, 20)

    assert found.record is None
    assert found.hidden is not None
    assert (found.hidden.first_offset, found.hidden.error.position) == (19, 19 * 700)
