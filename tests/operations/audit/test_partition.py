"""Segments put together: what is explained, and what is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.operations.audit.audit import audit
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import batches


def kinds(root: Path, topic: str) -> set[str]:
    report = audit([root], topics=[topic])
    return {finding.kind.value for finding in report.findings if finding.severity.value != "note"}


def without_segment(root: Path, name: str, base: int) -> None:
    for path in (root / name).glob(f"{base:020d}.*"):
        path.unlink()


def test_a_segment_that_is_missing_is_lost(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    without_segment(root, "rolled-0", 40)

    report = audit([root], topics=["rolled"])

    (finding,) = [each for each in report.findings if each.kind.value == "lost-offsets"]
    assert (finding.offset, finding.file) == (40, f"{56:020d}.log")
    assert "Offsets 40 to 55 are missing, 16 records." in finding.words


def test_offsets_below_the_log_start_are_deleted_not_lost(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    without_segment(root, "rolled-0", 20)
    starts = root / "log-start-offset-checkpoint"
    lines = starts.read_text().splitlines()[2:]
    starts.write_text("\n".join(["0", str(len(lines) + 1), *lines, "rolled 0 45"]) + "\n")

    assert "lost-offsets" not in kinds(root, "rolled")


def test_offsets_that_compaction_took_are_not_lost(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    log = root / "compacted-0" / f"{150:020d}.log"
    data = log.read_bytes()
    position, size = [*batches(data)][1]
    log.write_bytes(data[:position] + data[position + size :])

    assert "lost-offsets" not in kinds(root, "compacted")


@pytest.mark.parametrize("is_coordinated", [False, True])
def test_an_old_open_transaction_hangs_unless_its_coordinator_knows_it(
    tmp_path: Path, is_coordinated: bool
) -> None:
    """The broker was killed while a transaction was open whose records are years older than others."""
    root = fixture_copy("killed", tmp_path / "data")
    if not is_coordinated:
        shutil.rmtree(root / "__transaction_state-0")

    found = [each for each in audit([root]).findings if each.kind.value == "hanging-transaction"]

    assert [each.partition for each in found] == ([] if is_coordinated else ["txn-0"])
