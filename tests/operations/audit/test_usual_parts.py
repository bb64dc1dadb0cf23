"""The kernel and the slow form say the same of every segment, healthy and damaged, in pieces of any size."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c

from stratalog.buffers import aligned_buffer
from stratalog.operations.audit import usual_parts
from stratalog.operations.audit.index_entries import OffsetEntries
from stratalog.operations.audit.rows import RowChecks
from stratalog.operations.audit.segment_task import AuditedSegment
from stratalog.operations.audit.spots import Spot, Spots
from stratalog.operations.audit.usual_parts import UsualParts
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.walk import new_table
from tests import profile
from tests.fixtures.catalog import Partition, partitions
from tests.operations.audit.planting import ATTRIBUTES_AT, CRC_AT, batches
from tests.operations.audit.test_segment_task import audited

NOW = 1_700_000_000_000
DAMAGED_COUNT = profile.examples(100, quick=2, ci=6)
# Offsets and timestamps of 64 bits: the sum of the first two with a delta wraps.
EDGES = (2**63 - 1, 2**63 - 2, -(2**63), -1)
# Fields of a header with values that are close to what is allowed, or at the edges of 64 bits.
FIELDS: list[tuple[int, str, Callable[[int, random.Random], int]]] = [
    (0, ">q", lambda value, rng: value + rng.choice((-3, -1, 1, 2, 1 << 31))),
    (12, ">i", lambda value, rng: value + rng.choice((-1, 1, 5))),
    (21, ">h", lambda value, rng: value ^ (1 << rng.randrange(7))),
    (23, ">i", lambda value, rng: value + rng.choice((-2, -1, 1, 3))),
    (27, ">q", lambda value, rng: value + rng.choice((-90_000_000, -1, 1))),
    (35, ">q", lambda value, rng: value + rng.choice((-90_000_000, -1, 1, 1 << 50))),
    (43, ">q", lambda _value, rng: rng.choice((-1, 7))),
    (57, ">i", lambda value, rng: value + rng.choice((-2, -1, 1, 2))),
    *((at, ">q", lambda _value, rng: rng.choice(EDGES)) for at in (0, 27, 35)),
]


def both(
    directory: Path, base: int, next_base: int | None, patch: pytest.MonkeyPatch, **options: int
) -> tuple[AuditedSegment, bool]:
    """The result, which is the same in both forms; and whether the kernel went through to the end."""
    ended: list[UsualParts] = []
    begin = UsualParts.__init__

    def observed(self: UsualParts, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        ended.append(self)

    with patch.context() as inner:
        inner.setattr(UsualParts, "__init__", observed)
        quick = audited(directory, base, next_base, **options)
    with patch.context() as inner:
        is_over = property(lambda _self: True, lambda _self, _value: None)
        inner.setattr(UsualParts, "is_over", is_over, raising=False)
        slow = audited(directory, base, next_base, **options)
    assert quick == slow
    return quick, not ended[-1].is_over


def in_pieces(size: int, rows: int, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(usual_parts.memory, "buffer", aligned_buffer(size))
    patch.setattr(usual_parts.memory, "table", new_table(rows))
    patch.setattr(usual_parts.memory, "sums", np.empty(rows, np.uint32))


def segments_of(partition: Partition) -> list[tuple[int, int | None]]:
    bases = [int(log.stem) for log in partition.logs]
    return [*zip(bases, [*bases[1:], None], strict=True)]


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_both_forms_agree_on_what_a_broker_left(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, rows in ((8 << 20, 16384), (700, 3)):
        in_pieces(size, rows, monkeypatch)
        for base, next_base in segments_of(partition):
            for is_deep in (False, True):
                both(partition.path, base, next_base, monkeypatch, is_deep=is_deep)


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_both_forms_agree_on_damage(
    partition: Partition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(str(partition))
    for number in range(DAMAGED_COUNT):
        in_pieces(rng.choice((500, 5000, 8 << 20)), rng.choice((2, 16384)), monkeypatch)
        base, next_base = rng.choice(segments_of(partition))
        copy = tmp_path / str(number) / partition.name
        copy.mkdir(parents=True)
        for file in partition.path.glob(f"{base:020d}.*"):
            shutil.copyfile(file, copy / file.name)
        for _ in range(rng.randint(1, 3)):
            damage(copy / f"{base:020d}.log", rng)

        both(copy, base, next_base, monkeypatch, now_ms=NOW)


def damage(log: Path, rng: random.Random) -> None:
    """Change a field under a right checksum, an entry of an index, or any byte; or cut the log off."""
    kind = rng.choice(("field", "field", "field", "index", "timeindex", "flip", "cut"))
    path = log.with_suffix(f".{kind}") if kind.endswith("index") else log
    data = bytearray(path.read_bytes()) if path.exists() else bytearray()
    if not data:
        return
    if kind == "field":
        places = [place for place in _whole(bytes(data)) if data[place[0] + 16] == 2]
        if not places:
            return
        position, size = rng.choice(places)
        at, layout, change = rng.choice(FIELDS)
        (value,) = struct.unpack_from(layout, data, position + at)
        bits = 8 * struct.calcsize(layout)
        wrapped = (change(value, rng) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        struct.pack_into(layout, data, position + at, wrapped)
        checked = bytes(data[position + ATTRIBUTES_AT : position + size])
        struct.pack_into(">I", data, position + CRC_AT, crc32c(checked))
    elif kind == "cut":
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _whole(data: bytes) -> list[tuple[int, int]]:
    """The batches up to the first damage of an earlier change."""
    found = []
    for position, size in batches(data + bytes(12)):
        if size < 61 or position + size > len(data):
            break
        found.append((position, size))
    return found


def test_a_healthy_segment_never_needs_the_slow_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With gaps, a producer, a transaction's end elsewhere, a new epoch, and times that go back a little."""
    folder = tmp_path / "usual-0"
    folder.mkdir()
    log, offset, position, entries = b"", 0, 0, []
    for number in range(300):
        count = 1 + number % 3
        options = BatchOptions(
            partition_leader_epoch=number // 100,
            producer_id=5 if number % 4 == 0 else -1,
            producer_epoch=0 if number % 4 == 0 else -1,
            base_sequence=number if number % 4 == 0 else -1,
        )
        records = [Record(offset + i, NOW + number - 5 * (number % 2), None, b"v") for i in range(count)]
        batch = build_batch(records, options)
        if number % 7 == 1:
            entries.append(struct.pack(">ii", offset + count - 1, position))
        log, position, offset = log + batch, position + len(batch), offset + count + (number % 50 == 0)
    (folder / f"{0:020d}.log").write_bytes(log)
    (folder / f"{0:020d}.index").write_bytes(b"".join(entries))
    (folder / f"{0:020d}.timeindex").write_bytes(struct.pack(">qi", NOW + 298, offset - 4))
    for size, rows in ((8 << 20, 16384), (1000, 16384), (8 << 20, 7)):
        in_pieces(size, rows, monkeypatch)

        found, is_usual = both(folder, 0, None, monkeypatch)

        assert is_usual
        assert not found.spots
        assert found.gaps_count == 6
        assert [epoch for epoch, _ in found.scan.epoch_starts] == [0, 1, 2]
        assert [producer.producer_id for producer in found.scan.producers] == [5]


@pytest.mark.parametrize("at", [0, 27, 35])
@pytest.mark.parametrize("value", EDGES)
def test_both_forms_agree_on_the_edges_of_64_bits(
    at: int, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch in the middle has this offset or time, and its last offset is above its first."""
    folder = tmp_path / "edges-0"
    folder.mkdir()
    made = []
    for number in range(9):
        records = [Record(3 * number + i, NOW + number, None, b"v") for i in range(3)]
        made.append(bytearray(build_batch(records, BatchOptions())))
    struct.pack_into(">q", made[4], at, value)
    struct.pack_into(">I", made[4], CRC_AT, crc32c(bytes(made[4][ATTRIBUTES_AT:])))
    (folder / f"{0:020d}.log").write_bytes(b"".join(made))

    found, is_usual = both(folder, 0, None, monkeypatch, now_ms=NOW + 100)

    assert at != 0 or (found.spots and not is_usual)


def segment(folder: Path, *bases: int, bad: tuple[int, ...] = (), producer: bool = False) -> list[int]:
    """Batches of three records each, with an index; returns their positions. Their sizes are the same."""
    folder.mkdir(exist_ok=True)
    log, entries, positions, right = b"", b"", [], 0
    for number, base in enumerate(bases):
        options = (
            BatchOptions(producer_id=5, producer_epoch=0, base_sequence=3 * number) if producer else None
        )
        records = [Record(right + i, NOW + number, None, bytes(20)) for i in range(3)]
        batch = bytearray(build_batch(records, options or BatchOptions()))
        struct.pack_into(">q", batch, 0, base)
        if number in bad:
            batch[-1] ^= 1
        positions.append(len(log))
        if number:
            entries += struct.pack(">ii", min(base + 2, 2**31 - 1), len(log))
        log, right = log + batch, right + 3
    (folder / f"{0:020d}.log").write_bytes(log)
    (folder / f"{0:020d}.index").write_bytes(entries if [*bases] == sorted(bases) else b"")
    return positions


def place_of(spot: Spot) -> tuple[int, str]:
    return spot.position or 0, spot.kind.value


def said(found: AuditedSegment) -> tuple[object, ...]:
    """What does not depend on the size of the parts."""
    scan = found.scan
    return (
        sorted((spot for spot in found.spots if spot.file.endswith(".log")), key=place_of),
        (found.records_count, found.first_offset, found.last_offset, found.gaps, found.gaps_count),
        (scan.batches_count, scan.next_offset, scan.producers, scan.epoch_starts),
    )


@pytest.mark.parametrize("next_base", [None, 10_000])
@pytest.mark.parametrize("offset", [300, 1 << 40])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_damaged_offset_before_the_border_of_a_part_is_one_finding(
    tmp_path: Path, count: int, offset: int, next_base: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 3 batches in a part, one of these places is the last batch of a part, and one is the first."""
    for first in range(6, 12):
        bases = [3 * number + (offset if first <= number < first + count else 0) for number in range(40)]
        positions = segment(tmp_path / "border-0", *bases, producer=True)
        in_pieces(8 << 20, 16384, monkeypatch)
        whole, _ = both(tmp_path / "border-0", 0, next_base, monkeypatch)

        assert [spot.position for spot in whole.spots if spot.file.endswith(".log")] == [
            *positions[first : first + count]
        ]
        for size, rows in ((8 << 20, 3), (8 << 20, 1), (2 * positions[1] + 1, 16384), (500, 2)):
            in_pieces(size, rows, monkeypatch)
            found, is_usual = both(tmp_path / "border-0", 0, next_base, monkeypatch)

            assert not is_usual
            assert said(found) == said(whole), (first, size, rows)


def test_damage_near_the_border_of_a_part_is_the_same_in_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gaps, wrong offsets in both directions, and wrong checksums, which hide the batches between."""
    rng, kinds = random.Random(3), set()
    for number in range(profile.examples(200, quick=4, ci=25)):
        bases, bad, base = list[int](), list[int](), 0
        for place in range(rng.randint(12, 50)):
            bases.append(base + (rng.choice((30, 300, 1 << 33, -9)) if rng.random() < 0.1 else 0))
            bad += [place] * (rng.random() < 0.1)
            base += 3 + rng.choice((0, 0, 0, 12))
        folder = tmp_path / f"border-{number}"
        segment(folder, *(max(0, each) for each in bases), bad=tuple(bad), producer=number % 2 == 0)
        next_base = rng.choice((None, base))
        in_pieces(8 << 20, 16384, monkeypatch)
        whole, _ = both(folder, 0, next_base, monkeypatch)
        kinds |= {spot.kind.value for spot in whole.spots}
        monkeypatch.setattr(usual_parts.memory, "buffer_after", aligned_buffer(rng.choice((200, 64 << 10))))
        for size, rows in ((8 << 20, rng.choice((1, 2, 3, 9))), (rng.choice((300, 700, 2000)), 16384)):
            in_pieces(size, rows, monkeypatch)
            found, _ = both(folder, 0, next_base, monkeypatch)

            assert said(found) == said(whole), (number, size, rows)
    assert {"offset-ahead", "offset-far-ahead", "offset-backwards", "wrong-crc"} <= kinds or number < 20


def test_a_gap_before_the_border_of_a_part_does_not_end_the_quick_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(tmp_path / "gaps-0", *range(0, 900, 9))
    in_pieces(8 << 20, 7, monkeypatch)

    found, is_usual = both(tmp_path / "gaps-0", 0, None, monkeypatch)

    assert is_usual
    assert found.gaps_count == 99


def test_usual_parts_are_read_again_only_if_a_batch_in_them_may_be_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(tmp_path / "bad-0", *range(0, 900, 9), bad=(30, 31))
    in_pieces(8 << 20, 5, monkeypatch)
    opened, begin = [], UsualParts.__init__

    def observed(self: UsualParts, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        opened.append(self)

    monkeypatch.setattr(UsualParts, "__init__", observed)

    found = audited(tmp_path / "bad-0", 0, None)

    assert [spot.kind.value for spot in found.spots if spot.file.endswith(".log")] == ["wrong-crc"]
    assert len(opened) == 1


def test_entries_that_do_not_ascend_are_left_to_the_slow_form() -> None:
    spots = Spots()
    rows = RowChecks("0.log", 0, None, NOW, spots)
    offsets, positions = np.array([3, 2], np.int64), np.array([100, 200], np.int64)

    assert UsualParts(rows, OffsetEntries("0.index", offsets, positions, spots), None, 0).is_over
    assert not UsualParts(rows, OffsetEntries("0.index", positions, positions, spots), None, 0).is_over
