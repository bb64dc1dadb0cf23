"""`--index-sanity-check` and the comparison of indexes with their log, right where Kafka's are not."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from tests.cli.dumps import dump
from tests.fixtures.catalog import Partition, log_dirs, partitions

# What is in it: entries for offsets 11 and 19, at bytes 514 and 1058 of 1335.

Capture = pytest.CaptureFixture[bytes]


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_every_index_that_a_broker_left_passes_padded_or_not(
    partition: Partition, capsysbinary: Capture
) -> None:
    for file in sorted(partition.path.glob("*index")):
        if file.suffix == ".txnindex":
            continue

        dumped = dump(capsysbinary, "--index-sanity-check", "--files", file)

        assert dumped.lines[1:] in ([f"{file} passed sanity check."], [f"{file} is empty."])
        assert (dumped.status, dumped.err) == (0, "")


@pytest.mark.parametrize("entry_count", [0, 1, 2])
def test_padding_is_no_entry(entry_count: int, index: Path, capsysbinary: Capture) -> None:
    os.truncate(index, 8 * entry_count)
    entries = dump(capsysbinary, "--files", index)
    os.truncate(index, 8 * 1024)

    assert dump(capsysbinary, "--files", index) == entries


def test_a_padded_time_index_passes(time_index: Path, capsysbinary: Capture) -> None:
    os.truncate(time_index, 12 * 1024)

    dumped = dump(capsysbinary, "--index-sanity-check", "--files", time_index)

    assert dumped.lines[1:] == [f"{time_index} passed sanity check."]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([(19, 1058), (11, 514)], "do not ascend"),
        ([(11, 1058), (19, 514)], "do not ascend"),
        ([(11, 514), (19, 1400)], "points at byte 1400"),
        ([(11, 514), (19, 1059)], "points to byte 1059, where no batch starts"),
        ([(11, 514), (15, 1058)], "a batch starts with offset 16"),
        ([(11, 514), (0, 0), (19, 1058)], "do not ascend"),
    ],
)
def test_an_index_that_cannot_be_right_fails(
    entries: list[tuple[int, int]], reason: str, index: Path, capsysbinary: Capture
) -> None:
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))

    dumped = dump(capsysbinary, "--index-sanity-check", "--files", index)

    assert f"{index} failed sanity check: " in dumped.err
    assert reason in dumped.err
    assert dumped.status == 1


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([(1700000000019, 19), (1700000000011, 19)], "do not ascend"),
        ([(1700000000011, 19), (1700000000019, 11)], "descend"),
        ([(1700000000019, 20)], "ends with 19"),
    ],
)
def test_a_time_index_that_cannot_be_right_fails(
    entries: list[tuple[int, int]], reason: str, time_index: Path, capsysbinary: Capture
) -> None:
    time_index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))

    dumped = dump(capsysbinary, "--index-sanity-check", "--files", time_index)

    assert f"{time_index} failed sanity check: " in dumped.err
    assert reason in dumped.err
    assert dumped.status == 1


def test_an_entry_that_leads_nowhere_is_told_of(index: Path, capsysbinary: Capture) -> None:
    index.write_bytes(struct.pack(">ii", 19, 2000))

    dumped = dump(capsysbinary, "--files", index)

    assert dumped.lines == [f"Dumping {index}", "offset: 19 position: 2000"]
    assert dumped.err == f"{index}: offset 19 points to byte 2000, where no batch starts.\n"
    assert dumped.status == 1


def test_an_index_without_its_log_is_printed(index: Path, capsysbinary: Capture) -> None:
    index.with_suffix(".log").unlink()

    dumped = dump(capsysbinary, "--files", index)

    assert dumped.lines[1:] == ["offset: 11 position: 514", "offset: 19 position: 1058"]
    assert "which does not exist" in dumped.err
    assert dumped.status == 1


CLEAN = log_dirs("4.3.1", "clean")[0]
ROLLED = CLEAN / "rolled-0"
FIRST = "00000000000000000000"


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A copy of a segment of five batches that can be damaged; the path of its .log."""
    for file in ROLLED.glob(f"{FIRST}.*"):
        shutil.copy(file, tmp_path)
    return tmp_path / f"{FIRST}.log"


def test_part_of_an_entry_is_told_of(segment: Path, capsysbinary: Capture) -> None:
    index = segment.with_suffix(".index")
    index.write_bytes(index.read_bytes() + b"abc")

    dumped = dump(capsysbinary, "--files", index)

    assert dumped.lines == [f"Dumping {index}", "offset: 11 position: 514", "offset: 19 position: 1058"]
    assert dumped.err == f"{index} ends with 3 bytes that are not an entry.\n"
    assert dumped.status == 0
