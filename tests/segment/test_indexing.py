"""Which entries a set of batches brings to the indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import IndexFullError, InvalidOffsetError
from stratalog.records.walk import walk_batches
from stratalog.segment.segment import LogSegment
from tests.segment.making import (
    CountingDisk,
    History,
    ManualClock,
    append,
    batch_of_size,
    config_of,
    new_segment,
    records,
    reopened,
)
from tests.segment.naive import index


def test_the_worked_example_has_the_entries_that_kafka_wrote(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=4096)
    sets = [
        [(1, 1001, 4083), (2, 900, 3072), (3, 2000, 3072), (4, 1500, 5072), (5, 1500, 5072)],
        [(6, 3000, 80), (7, 3001, 80)],
        [(8, 3002, 80)],
    ]
    for batches in sets:
        append(segment, *(batch_of_size(*batch) for batch in batches))

    segment.on_become_inactive()

    offsets, times = segment.reader.offset_index, segment.reader.time_index
    assert [offsets.entry(i) for i in range(offsets.entry_count)] == [(3, 7155), (5, 15299), (6, 20371)]
    assert [times.entry(i) for i in range(times.entry_count)] == [(2000, 3), (3000, 6), (3002, 8)]
    assert len(Path(offsets.path).read_bytes()) == 24
    assert len(Path(times.path).read_bytes()) == 36


@pytest.mark.parametrize("seed", range(30))
def test_entries_are_those_of_the_rule_applied_batch_by_batch(tmp_path: Path, seed: int) -> None:
    history = History(seed, 0, producers=3)
    interval = history.random.choice([0, 150, 1000, 4096])
    segment = new_segment(tmp_path, interval=interval, index_bytes=8000)
    data = b""
    for _ in range(12):
        batches = history.set_of_batches()
        append(segment, *batches)
        data += b"".join(batches)

    segment.close()

    again = reopened(segment, growable=False)
    expected = index(data, interval)
    found = [again.reader.offset_index.entry(i) for i in range(again.reader.offset_index.entry_count)]
    assert found == expected.offset_entries
    assert [
        again.reader.time_index.entry(i) for i in range(again.reader.time_index.entry_count)
    ] == expected.time_entries


@pytest.mark.parametrize("seed", range(30))
def test_a_batch_on_its_own_brings_the_entries_that_the_kernel_brings(tmp_path: Path, seed: int) -> None:
    history = History(seed, 0, producers=3)
    interval = history.random.choice([0, 150, 1000, 4096])
    segments = []
    for name in ("kernel", "own"):
        (tmp_path / name).mkdir()
        segments.append(new_segment(tmp_path / name, interval=interval, index_bytes=600))
    refusals: list[tuple[str, str]] = []
    for _ in range(60):
        batch = history.batch()
        if history.random.random() < 0.1:
            batch = records(history.random.randrange(history.next_offset), "back")
        row = walk_batches(batch).headers[0]
        found = []
        for segment, act in zip(segments, (append, append_alone), strict=True):
            try:
                act(segment, batch)
                found.append("")
            except (IndexFullError, InvalidOffsetError) as error:
                found.append(f"{type(error).__name__} {str(error).replace(segment.directory, '')}")
        refusals.append((found[0], found[1]))
        assert segments[0].size == segments[1].size
        assert segments[0].reader.known_largest == segments[1].reader.known_largest
        assert segments[0]._since_entry == segments[1]._since_entry, row

    for segment in segments:
        segment.close_handlers()
    assert all(kernel == own for kernel, own in refusals)
    for kind in ("log", "index", "timeindex"):
        kernel, own = (tmp_path / name / f"{0:020d}.{kind}" for name in ("kernel", "own"))
        assert kernel.read_bytes() == own.read_bytes()


def append_alone(segment: LogSegment, batch: bytes) -> None:
    row = walk_batches(batch).headers[0]
    segment.append_batch(batch, int(row["last_offset"]), int(row["max_timestamp"]))


def test_an_index_that_fills_up_inside_a_set_is_told_with_the_set_written(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=0, index_bytes=24)
    batches = [records(offset, "a") for offset in range(6)]

    with pytest.raises(IndexFullError):
        append(segment, *batches)

    assert segment.size == sum(map(len, batches))
    assert segment.is_index_full


def test_offsets_that_go_back_are_told_where_an_entry_is_due(segment: LogSegment) -> None:
    append(segment, records(40, "a"), records(45, "a"))
    data = records(41, "a")

    with pytest.raises(InvalidOffsetError):
        segment.append(data, walk_batches(data).headers, 41)


def test_the_way_to_the_next_entry_begins_anew_with_a_cut(tmp_path: Path) -> None:
    batches = [records(offset, "a") for offset in range(4)]
    size = len(batches[0])
    segment = new_segment(tmp_path, interval=2 * size - 1)
    append(segment, batches[0], batches[1])

    segment.truncate_to(1)
    for batch in batches[1:]:
        append(segment, batch)

    assert segment.reader.offset_index.entry_count == 1
    assert segment.reader.offset_index.last_entry == (3, 3 * size)


def test_many_entries_of_one_set_are_written_at_once(tmp_path: Path) -> None:
    disk = CountingDisk()
    segment = LogSegment.create(disk, tmp_path, 0, config_of(0), ManualClock())
    append(segment, records(0, "a"))
    disk.asked.clear()

    append(segment, *(records(offset, "a") for offset in range(1, 20)))

    assert disk.asked == ["write_at"] * 3
    assert segment.reader.offset_index.entry_count == 19
