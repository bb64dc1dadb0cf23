"""The kernels that write lines, and files that do not fit into one piece of memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.cli.dumping import chunks, text_batches
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.text import sequence_after, write_number, write_text
from tests.cli.dumping import dump

Capture = pytest.CaptureFixture[bytes]
INT64 = st.integers(-(2**63), 2**63 - 1)


def text_of(raw: bytes) -> str:
    out = np.zeros(3 * len(raw) + 1, np.uint8)
    end = write_text(byte_array(raw), 0, len(raw), out, 0)
    return out[:end].tobytes().decode("utf-8")


@given(INT64)
def test_numbers_are_written_in_decimal(number: int) -> None:
    out = np.zeros(24, np.uint8)

    end = write_number(out, 2, np.int64(number))

    assert out[2:end].tobytes() == str(number).encode()
    assert not out[:2].any()
    assert not out[end:].any()


@pytest.mark.parametrize("number", [0, 9, 10, 99, 100, 2**63 - 1, -(2**63), *(10**n for n in range(19))])
def test_numbers_of_every_length(number: int) -> None:
    out = np.zeros(24, np.uint8)

    assert out[: write_number(out, 0, np.int64(number))].tobytes() == str(number).encode()


@given(st.text())
def test_text_is_written_as_it_is(text: str) -> None:
    assert text_of(text.encode("utf-8", "replace")) == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize(
    ("raw", "replaced"),
    [  # each asked of Java 17: new String(bytes, UTF_8)
        (b"\x80", "?"),
        (b"\xc0\xaf", "??"),
        (b"\xc3", "?"),
        (b"\xc3A", "?A"),
        (b"\xe0\x80\x80", "???"),
        (b"\xe2\x28\xa1", "?(?"),
        (b"\xe2\x82", "?"),
        (b"\xe2\x82A", "?A"),
        (b"\xed\xa0\x80", "?"),
        (b"\xed\xa0", "?"),
        (b"\xed\xa0A", "?A"),
        (b"\xf0\x80\x80\x80", "????"),
        (b"\xf0\x9f\x98", "?"),
        (b"\xf0\x9f\x98A", "?A"),
        (b"\xf0\x9fA", "?A"),
        (b"\xf4\x90\x80\x80", "????"),
        (b"\xf5\x80\x80\x80", "????"),
        (b"\xff\xfeabc", "??abc"),
    ],
)
def test_what_is_no_text_is_replaced_as_by_java(raw: bytes, replaced: str) -> None:
    assert text_of(b"plain " + raw) == "plain " + replaced.replace("?", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    ("base_sequence", "delta", "sequence"),
    [(-1, 5, -1), (0, 0, 0), (7, 3, 10), (2**31 - 1, 1, 0), (2**31 - 2, 4, 2)],
)
def test_sequences_go_on_at_zero(base_sequence: int, delta: int, sequence: int) -> None:
    assert sequence_after(base_sequence, delta) == sequence


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_SIZE", 8192)
    monkeypatch.setattr(chunks, "_ROOM_IN_FRONT", 4096)
    monkeypatch.setattr(text_batches, "OUT_SIZE", 2048)
    monkeypatch.setattr(text_batches, "GAPS", 2)


def write_segment(path: Path, codec: Codec = Codec.NONE) -> list[str]:
    """A log of batches of all sizes with a gap behind each; returns the lines of its records."""
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
