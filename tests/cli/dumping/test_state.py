"""Snapshots of producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.dumps import SEGMENT, dump

# What is in it: entries for offsets 11 and 19, at bytes 514 and 1058 of 1335.

Capture = pytest.CaptureFixture[bytes]


def test_a_corrupt_snapshot_is_a_complaint_and_no_failure(tmp_path: Path, capsysbinary: Capture) -> None:
    snapshot = tmp_path / "00000000000000000020.snapshot"
    snapshot.write_bytes(SEGMENT.with_name(snapshot.name).read_bytes() + b"x")

    dumped = dump(capsysbinary, "--files", snapshot)

    assert dumped.lines == [f"Dumping {snapshot}"]
    assert "CRC" in dumped.err
    assert dumped.status == 0
