"""Dumps of files that do not fit into one piece of memory, nor their lines into one buffer."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.cli.dumping import chunks, text_batches
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from tests.cli.dumps import dump

Capture = pytest.CaptureFixture[bytes]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 8192)
    monkeypatch.setattr(chunks, "_ROOM_IN_FRONT", 4096)
    monkeypatch.setattr(text_batches, "OUT_SIZE", 2048)
    monkeypatch.setattr(text_batches, "GAPS", 2)


def write_segment(path: Path, codec: Codec = Codec.NONE) -> list[str]:
    """A log of batches of all sizes with a gap after each; returns the lines of its records."""
    lines, batches, offset = [], [], 0
    for size in (1, 100, 5000, 20, 50_000, 3, 9000, 4096, 700):
        value = "väl " * (size // 5) + "x"
        records = [Record(offset + i, 1000 + i, b"key", value.encode()) for i in range(3)]
        batches.append(build_batch(records, BatchOptions(codec=codec)))
        lines += [
            f"| offset: {offset + i} CreateTime: {1000 + i} keySize: 3 valueSize: {len(value.encode())} "
            f"sequence: -1 headerKeys: [] key: key payload: {value}"
            for i in range(3)
        ]
        offset += 10
    path.write_bytes(b"".join(batches))
    return lines


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_batches_larger_than_a_piece_are_read_whole(
    codec: Codec, tmp_path: Path, capsysbinary: Capture
) -> None:
    log = tmp_path / "00000000000000000000.log"
    lines = write_segment(log, codec)

    dumped = dump(capsysbinary, "--print-data-log", log)

    assert [line for line in dumped.lines if line.startswith("|")] == lines
    batches = [line for line in dumped.lines if line.startswith("baseOffset")]
    assert len(batches) == 9
    assert all(line.endswith("isvalid: true") for line in batches)
    assert dumped.err.splitlines()[1:] == [f"  {10 * i + 2} is followed by {10 * i + 10}" for i in range(8)]


@pytest.mark.usefixtures("small_pieces")
def test_a_torn_batch_larger_than_a_piece_is_counted(tmp_path: Path, capsysbinary: Capture) -> None:
    log = tmp_path / "00000000000000000000.log"
    write_segment(log)
    size = log.stat().st_size
    batch = build_batch([Record(500, value=bytes(60_000))], BatchOptions())
    log.write_bytes(log.read_bytes() + batch[:-1])

    dumped = dump(capsysbinary, log)

    assert dumped.lines[-1] == f"Found {log.stat().st_size - size} invalid bytes at the end of {log.name}"
    assert dumped.status == 0
