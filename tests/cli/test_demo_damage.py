"""Damage that a demo plants, and finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli.demo_damage import Planted, cut_the_power, log_damages, plant, unexpected
from stratalog.cli.demo_logs import build_logs
from stratalog.files.disk import Disk
from stratalog.operations.audit.audit import audit
from tests.cli.demos import report_of, told


def test_exactly_the_planted_damage_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = told(capsys, tmp_path / "demo")

    planted = {(damage["path"], damage["position"]) for damage in result["planted"]}
    assert len(planted) == 5
    assert planted == {
        (f"{found['directory']}/{found['partition']}/{found['file']}", found["position"])
        for found in report_of(result, "audit")["findings"]
        if found["file"].endswith(".log") and found["position"] is not None
    }
    assert result["problems"] == []


@pytest.mark.parametrize(("seed", "size"), [(2, 5_000_000), (3, 12_000_000)])
def test_other_seeds_and_sizes_find_it_too(seed: int, size: int, tmp_path: Path) -> None:
    planted = plant(build_logs(tmp_path, size=size, seed=seed, disk=Disk()))
    cut_the_power(tmp_path)

    assert unexpected(planted, audit([tmp_path])) == []


def test_a_difference_between_planted_and_found_is_told(tmp_path: Path) -> None:
    plant(build_logs(tmp_path, size=4_000_000, seed=1, disk=Disk()))
    report = audit([tmp_path])
    found = [
        (str(Path(each.directory, each.partition, each.file)), each.position or 0)
        for each in log_damages(report)
    ]
    planted = [Planted(path=path, position=position, what="x") for path, position in found[1:]]
    planted.append(Planted(path="a.log", position=7, what="a bit flipped"))

    assert unexpected(planted, report) == [
        "a bit flipped in a.log at byte 7 was not found",
        f"damage in {found[0][0]} at byte {found[0][1]} was found, but was not planted",
    ]
