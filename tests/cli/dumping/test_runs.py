"""Records past a batch that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.dumps import dump
from tests.fixtures.catalog import log_dirs

CLEAN = log_dirs("4.3.1", "clean")[0]
ROLLED = CLEAN / "rolled-0"
FIRST = "00000000000000000000"
Capture = pytest.CaptureFixture[bytes]


def test_a_batch_that_cannot_be_read_does_not_hide_the_next(segment: Path, capsysbinary: Capture) -> None:
    data = bytearray(segment.read_bytes())
    data[257 + 61] = 0x7F  # the size of the second batch's first record
    segment.write_bytes(data)

    dumped = dump(capsysbinary, "--print-data-log", "--files", segment)

    batches = [line for line in dumped.lines if line.startswith("baseOffset")]
    assert [line.endswith("isvalid: true") for line in batches] == [True, False, True, True, True]
    assert sum(line.startswith("| offset") for line in dumped.lines) == 4 * 4
    assert f"{segment} at byte 257: " in dumped.err
    assert dumped.status == 1
