"""What is wrong with a segment, told by a walk over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stratalog.jobs.damage import DamageKind
from stratalog.segment import headers
from tests.jobs.walking import walk_file


def test_a_flipped_bit_costs_one_batch(segment: Path, batches: list[dict[str, Any]]) -> None:
    broken = batches[1]
    data = bytearray(segment.read_bytes())
    data[broken["position"] + broken["size"] - 1] ^= 1
    segment.write_bytes(data)

    seen = walk_file(segment)

    (damage,) = seen.damages
    assert (damage.position, damage.lost_size) == (broken["position"], broken["size"])
    assert damage.kind is DamageKind.WRONG_CRC
    assert f"its header says {broken['crc']:#010x}" in damage.reason
    assert seen.batches_count == len(batches) - 1


def test_neighbouring_bad_batches_are_one_damage(segment: Path, batches: list[dict[str, Any]]) -> None:
    data = bytearray(segment.read_bytes())
    for broken in batches[1:3]:
        data[broken["position"] + broken["size"] - 1] ^= 1
    segment.write_bytes(data)

    (damage,) = walk_file(segment).damages

    assert damage.position == batches[1]["position"]
    assert damage.lost_size == batches[1]["size"] + batches[2]["size"]


@pytest.mark.parametrize("missing", [1, 40, 60])
def test_a_torn_tail_starts_where_the_last_batch_does(
    segment: Path, batches: list[dict[str, Any]], missing: int
) -> None:
    segment.write_bytes(segment.read_bytes()[:-missing])

    (damage,) = walk_file(segment).damages

    assert damage.kind is DamageKind.TORN_TAIL
    assert damage.position == batches[-1]["position"]
    assert damage.lost_size == batches[-1]["size"] - missing


@pytest.mark.parametrize("zeros_size", [18, 4096, 100_000])
def test_zeros_behind_the_last_batch_are_told_from_a_bad_length(segment: Path, zeros_size: int) -> None:
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(bytes(zeros_size))

    (damage,) = walk_file(segment).damages

    assert (damage.kind, damage.position, damage.lost_size) == (DamageKind.ZEROS, size, zeros_size)


def test_zeros_with_something_behind_them_are_a_bad_length(segment: Path) -> None:
    with segment.open("ab") as file:
        file.write(bytes(100_000) + b"x")

    (damage,) = walk_file(segment).damages

    assert damage.kind is DamageKind.BAD_LENGTH


def test_foreign_bytes_cost_the_rest_of_the_file(segment: Path, batches: list[dict[str, Any]]) -> None:
    data = bytearray(segment.read_bytes())
    at = batches[2]["position"]
    data[at : at + 50] = b"2026-03-01 04:12:09,113 WARN somebody else's line\n"
    segment.write_bytes(data)

    seen = walk_file(segment)

    (damage,) = seen.damages
    assert (damage.kind, damage.position, damage.end) == (DamageKind.BAD_MAGIC, at, len(data))
    assert seen.batches_count == 2


def test_bytes_cut_out_are_one_damage_to_the_end(segment: Path, batches: list[dict[str, Any]]) -> None:
    data = segment.read_bytes()
    at = batches[1]["position"]
    segment.write_bytes(data[: at + 70] + data[at + 80 :])

    (damage,) = walk_file(segment).damages

    assert (damage.position, damage.end) == (at, len(data) - 10)


def test_a_length_that_lies_does_not_end_the_walk_early(
    segment: Path, batches: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "CHUNK_SIZE", 4096)
    data = bytearray(segment.read_bytes() + bytes(20_000))
    at = batches[-1]["position"] + 8
    data[at : at + 4] = (2**30).to_bytes(4, "big")
    segment.write_bytes(data)

    (damage,) = walk_file(segment).damages

    assert (damage.kind, damage.position, damage.end) == (
        DamageKind.TORN_TAIL,
        batches[-1]["position"],
        len(data),
    )


def test_a_segment_that_is_not_the_last_is_not_torn_but_damaged(
    segment: Path, batches: list[dict[str, Any]]
) -> None:
    segment.write_bytes(segment.read_bytes()[:-1])

    (damage,) = walk_file(segment, is_active=False).damages

    assert (damage.kind, damage.position) == (DamageKind.BAD_LENGTH, batches[-1]["position"])
