"""Records that are divided among batches: how many there are, how large, and which records cannot be."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from stratalog import NewRecord, open_log
from stratalog.errors import RecordTooLargeError

LIMIT = 4096


def sizes_of(directory: Path) -> list[int]:
    """The sizes of the batches in the files, by the lengths in their headers."""
    found = []
    for file in sorted(directory.glob("*.log")):
        data, position = file.read_bytes(), 0
        while position < len(data):
            found.append(12 + struct.unpack_from(">i", data, position + 8)[0])
            position += found[-1]
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_as_large_as_they_may_be(tmp_path: Path, codec: str) -> None:
    words = random.Random(5)
    values = [words.randbytes(100) for _ in range(1000)]
    with open_log(tmp_path / "t-0", create=True, config={"max.message.bytes": LIMIT}, codec=codec) as log:  # type: ignore[arg-type]
        log.append_many(values)

        assert [record.value for record in log] == values
    sizes = sizes_of(tmp_path / "t-0")
    assert max(sizes) <= LIMIT
    assert sum(sizes) / len(sizes) > LIMIT / 2


def test_records_of_very_different_sizes_are_divided_too(tmp_path: Path) -> None:
    values = [b"x" * size for size in (3900, 1, 2, 3900, 10, 3000, 3000, 1, 5, 3900)] * 3
    with open_log(tmp_path / "t-0", create=True, config={"max.message.bytes": LIMIT}) as log:
        assert log.append_many(values) == (0, len(values) - 1)

        assert [record.value for record in log] == values
    assert max(sizes_of(tmp_path / "t-0")) <= LIMIT


def test_keys_headers_and_times_are_those_that_were_given(tmp_path: Path) -> None:
    given = [
        NewRecord(b"x" * 100, key=str(number).encode(), headers=[("n", b"%d" % number)], timestamp=number)
        for number in range(500)
    ]
    with open_log(tmp_path / "t-0", create=True, config={"max.message.bytes": LIMIT}) as log:
        log.append_many(given)

        read = [NewRecord(record.value, record.key, [*record.headers], record.timestamp) for record in log]
    assert read == given


def test_a_batch_that_the_topics_own_codec_makes_larger_is_divided_again(tmp_path: Path) -> None:
    """Zeros fit in a batch of gzip, and not in the uncompressed one that the topic keeps."""
    config = {"max.message.bytes": LIMIT, "compression.type": "uncompressed"}
    values = [bytes(500) for _ in range(200)]
    with open_log(tmp_path / "t-0", create=True, config=config, codec="gzip") as log:
        assert log.append_many(values) == (0, 199)

        assert [record.value for record in log] == values
    assert max(sizes_of(tmp_path / "t-0")) <= LIMIT


@pytest.mark.parametrize("where", [0, 50, 99])
def test_one_record_that_fits_in_no_batch_refuses_all(tmp_path: Path, where: int) -> None:
    values = [b"x" * 100] * 100
    values[where] = bytes(LIMIT)
    with open_log(tmp_path / "t-0", create=True, config={"max.message.bytes": LIMIT}) as log:
        with pytest.raises(RecordTooLargeError, match=f"max.message.bytes of this topic is {LIMIT}"):
            log.append_many(values)
        with pytest.raises(RecordTooLargeError):
            log.append(values[where])

        assert log.end_offset == 0
