"""The complaints of a dump, in Kafka's words."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.cli.dumps import dump

# What is in it: entries for offsets 11 and 19, at bytes 514 and 1058 of 1335.

Capture = pytest.CaptureFixture[bytes]


def test_what_the_log_contradicts_is_told_in_kafkas_words(
    index: Path, time_index: Path, capsysbinary: Capture
) -> None:
    index.write_bytes(struct.pack(">iiii", 12, 514, 19, 1058))
    time_index.write_bytes(struct.pack(">qiqiqi", 5, 11, 1700000000019, 18, 4, 19))

    dumped = dump(capsysbinary, "--verify-index-only", "--files", f"{index},{time_index}")

    assert dumped.lines == [f"Dumping {index}", f"Dumping {time_index}"]
    assert dumped.err.splitlines() == [
        f"Mismatches in :{index}",
        "  Index offset: 12, log offset: 11",
        f"Found timestamp mismatch in :{time_index}",
        "  Index timestamp: 5, log timestamp: 1700000000011",
        "  Index timestamp: 4, log timestamp: 1700000000019",
        f"Found out of order timestamp in :{time_index}",
        "  Index timestamp: 4, Previously indexed timestamp: 1700000000019",
        f"The following indexed offsets are not found in :{time_index}",
        "Indexed offset: 18, found log offset: 19",
    ]
    assert dumped.status == 0
