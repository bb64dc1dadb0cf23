"""Recovery on a real disk that is full: the plan says what the run does.

Skipped, in words, where the machine does not let us mount.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.faults import mounted

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts are made as Linux makes them")


def said(scenario: str, work: Path) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = json.loads(mounted.printed(scenario, work, "tests.faults.full_disk"))
    return found


def test_on_a_full_disk_the_plan_is_what_the_run_does(tmp_path: Path) -> None:
    planned, planned_elsewhere, done, done_elsewhere, again = said("tmpfs", tmp_path)

    assert (planned[0], done[0]) == (3, 3)
    assert "recover --work-dir DIR" in planned[1]
    # With a work directory the indexes are cut first, which gives room back.
    assert (planned_elsewhere[0], done_elsewhere[0], again[0]) == (1, 1, 0)


def test_a_dry_run_said_that_a_work_directory_is_enough(tmp_path: Path) -> None:
    _, planned, _, done, again = said("tmpfs sparse", tmp_path)

    assert (planned[0], done[0]) == (3, 3)
    assert "copes with a full disk" not in planned[1] + done[1]
    assert "again with the same --work-dir" in done[1].splitlines()[-1]
    # The torn tail was cut off by the run that failed.
    assert again[0] == 1
    assert "40 bytes of its logs are cut off and kept in quarantine" in again[1].splitlines()[-1]


def test_a_dry_run_took_blocks_that_ext4_keeps_for_itself_for_free(tmp_path: Path) -> None:
    """The run itself may find a block: what ext4 has deleted becomes free some time later."""
    planned, planned_elsewhere, *_ = said("ext4 sparse", tmp_path)

    assert (planned[0], planned_elsewhere[0]) == (3, 3)
