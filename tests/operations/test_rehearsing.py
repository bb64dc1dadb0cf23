"""What `compact` would do, without a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.operations import rehearsing
from tests.cli.compacting import SETTINGS, run
from tests.cli.planting import MARKER, Planted


def test_a_plan_after_a_recovery_on_paper_is_to_the_byte_what_compact_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        planted.fill("t", 23, keys=3)
    (planted.data / MARKER).unlink()
    (planted.data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for base in (15, 20):  # the log now ends inside what was closed, and indexes are gone
        (planted.data / "t-0" / f"{base:020d}.index").unlink()
    torn = planted.data / "t-0" / f"{15:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-3])
    before = planted.contents()

    assert run(planted, "--dry-run") == 3
    assert run(planted, "--dry-run", "--recover", "--json") == 1
    assert planted.contents() == before
    planned = json.loads(capsys.readouterr().out)
    assert run(planted, "--recover", "--json") == 1

    done = json.loads(capsys.readouterr().out)
    (one,), (other,) = (found["directories"][0]["partitions"] for found in (planned, done))
    assert one["cleaned"] == other["cleaned"] is not None


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Twenty-one records of three keys in five segments; the last has one record."""
    with Planted(tmp_path, t=SETTINGS) as planted:
        planted.fill("t", 21, keys=3)
    return planted


def test_a_dry_run_says_what_is_dirty_and_changes_nothing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.contents()

    assert run(planted, "--dry-run", "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["directories"][0]["partitions"]
    assert (partition["cleaned"]["first_dirty_offset"], partition["cleaned"]["end_offset"]) == (0, 20)
    assert planted.contents() == before


def test_a_larger_map_is_not_larger_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsing, "LARGEST_MAP_SIZE", 24 * 1000)

    assert rehearsing._map_for(10).capacity < 20
    assert rehearsing._map_for(10**12).capacity == OffsetMap(24 * 1000).capacity


@pytest.mark.parametrize("count", [1, 2, 9, 10, 1000])
def test_a_larger_map_has_room_for_a_key_at_each_offset(count: int) -> None:
    assert rehearsing._map_for(count).capacity >= count
