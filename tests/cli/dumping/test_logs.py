"""Batches of a .log file: where a dump of them begins and ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.dumps import dump
from tests.fixtures.catalog import log_dirs

CLEAN = log_dirs("4.3.1", "clean")[0]
ROLLED = CLEAN / "rolled-0"
FIRST = "00000000000000000000"
Capture = pytest.CaptureFixture[bytes]


def test_zeros_behind_the_last_batch_end_the_file_and_not_the_dump(
    segment: Path, capsysbinary: Capture
) -> None:
    whole = dump(capsysbinary, "--files", segment)
    os.truncate(segment, 1335 + 4096)

    dumped = dump(capsysbinary, "--files", f"{segment},{segment.with_suffix('.index')}")

    assert dumped.lines[: len(whole.lines)] == whole.lines
    assert dumped.lines[len(whole.lines) :] == [
        f"Found 4096 invalid bytes at the end of {FIRST}.log",
        f"Dumping {segment.with_suffix('.index')}",
        "offset: 11 position: 514",
        "offset: 19 position: 1058",
    ]
    assert (
        dumped.err
        == f"{segment} at byte 1335: there are zeros where a batch should start, 4096 bytes before the end.\n"
    )
    assert dumped.status == 1


def test_a_torn_batch_is_counted_and_no_failure(segment: Path, capsysbinary: Capture) -> None:
    os.truncate(segment, 1000)

    dumped = dump(capsysbinary, "--files", segment)

    assert dumped.lines[-1] == f"Found 219 invalid bytes at the end of {FIRST}.log"
    assert (dumped.status, dumped.err) == (0, "")


def test_max_bytes_reads_the_whole_batches_within(segment: Path, capsysbinary: Capture) -> None:
    dumped = dump(capsysbinary, "--max-bytes", "1000", "--files", segment)

    assert [line.split()[1] for line in dumped.lines[2:]] == ["0", "4", "8"]
    assert (dumped.status, dumped.err) == (0, "")


def test_a_dump_can_begin_at_a_byte(segment: Path, capsysbinary: Capture) -> None:
    whole = dump(capsysbinary, "--files", segment, "--deep-iteration")

    dumped = dump(capsysbinary, "--position", "514", segment, "--deep-iteration")

    assert dumped.lines[2:] == whole.lines[2 + 2 * 5 :]
    assert dumped.err == ""
