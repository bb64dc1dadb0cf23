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
from stratalog.operations.audit.spots import Spots
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


def test_entries_that_do_not_ascend_are_left_to_the_slow_form() -> None:
    spots = Spots()
    rows = RowChecks("0.log", 0, None, NOW, spots)
    offsets, positions = np.array([3, 2], np.int64), np.array([100, 200], np.int64)

    assert UsualParts(rows, OffsetEntries("0.index", offsets, positions, spots), None, 0).is_over
    assert not UsualParts(rows, OffsetEntries("0.index", positions, positions, spots), None, 0).is_over
