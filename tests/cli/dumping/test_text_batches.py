"""Batches and records as the lines of Kafka's tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.dumps import dump
from tests.fixtures.catalog import Partition, log_dirs, partitions

CLEAN = log_dirs("4.3.1", "clean")[0]
ROLLED = CLEAN / "rolled-0"
FIRST = "00000000000000000000"
Capture = pytest.CaptureFixture[bytes]


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_batches_without_records_are_the_same_lines(partition: Partition, capsysbinary: Capture) -> None:
    kafka = partition.dump.read_bytes().decode()

    for file in partition.logs:
        dumped = dump(capsysbinary, "--files", file)

        assert dumped.status == 0
        assert dumped.err == ""
        for line in dumped.lines[2:]:
            assert line.startswith(("baseOffset: ", "offset: "))
            assert f"{line}\n" in kafka


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--deep-iteration", "--skip-record-metadata"], ["", "", "", ""]),
        (
            ["--print-data-log", "--skip-record-metadata"],
            [f"| key: k{i} payload: {4 * f'epoch 0 {i} '}" for i in range(4)],
        ),
    ],
)
def test_records_without_metadata(
    arguments: list[str], lines: list[str], segment: Path, capsysbinary: Capture
) -> None:
    dumped = dump(capsysbinary, *arguments, "--files", segment)

    assert dumped.lines[3:7] == lines
