"""Damaged logs: reported with file, byte, offset and remedy, or skipped, and only what is damaged."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import CorruptRecordError
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import byte_array
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.reading.damaging import damaged, flip, zero
from tests.jobs.reading.making import Made, batches_of, kafka_rows, read


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_a_corrupt_batch_is_named_with_file_byte_offset_and_remedy(
    own_log: Made, partitions_count: str
) -> None:
    log, position, offsets = damaged(own_log, 100)

    with pytest.raises(CorruptRecordError) as caught:
        read(own_log.path, minPartitions=partitions_count)

    assert (caught.value.path, caught.value.position) == (str(log), position)
    assert f"from offset {offsets[0]} on" in str(caught.value)
    assert "onCorruption=skip" in str(caught.value)


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_a_corrupt_batch_can_be_skipped(own_log: Made, partitions_count: str) -> None:
    _, _, offsets = damaged(own_log, 100)

    rows = read(own_log.path, minPartitions=partitions_count, onCorruption="skip")

    assert rows == own_log.rows(offset for offset in range(3000) if offset not in offsets)


@pytest.mark.parametrize("has_index", [True, False], ids=["with an index", "without"])
@pytest.mark.parametrize("partitions_count", ["1", "20"])
@pytest.mark.parametrize("byte", [8, 9, 11], ids=["negative", "too large", "another"])
def test_behind_a_damaged_length_reading_goes_on_at_the_next_batch(
    own_log: Made, partitions_count: str, byte: int, has_index: bool
) -> None:
    log, _, offsets = damaged(own_log, byte)
    if not has_index:
        log.with_suffix(".index").unlink()

    rows = read(own_log.path, minPartitions=partitions_count, onCorruption="skip")

    assert rows == own_log.rows(offset for offset in range(3000) if offset not in offsets)


@pytest.mark.parametrize("partition", partitions("2.8.2", "clean"), ids=str)
def test_behind_a_damaged_length_messages_of_old_formats_are_found_by_the_index(
    partition: Partition, tmp_path: Path
) -> None:
    """Damage the first batch of each segment whose index names a later batch."""
    copy = Path(shutil.copytree(partition.path, tmp_path / partition.name))
    kafkas = [record["offset"] for batch, record in kafka_rows(partition) if not batch["isControl"]]
    named: set[int] = set()
    for log in copy.glob("*.log"):
        index = log.with_suffix(".index").read_bytes()
        if index.strip(b"\0"):
            _, position = struct.unpack_from(">ii", index)
            starts = [b for b in partition.batches() if (b["file"], b["position"]) == (log.name, position)]
            named |= {record["offset"] for batch in starts for record in batch["records"]}
            flip(log, 8)

    found = {row["offset"] for row in read(copy, columns=("offset",), onCorruption="skip")}

    assert found <= set(kafkas)
    assert named & set(kafkas) <= found


@pytest.mark.parametrize("partitions_count", ["1", "20"])
def test_damage_that_is_longer_than_an_index_s_steps_ends_where_it_ends(
    own_log: Made, partitions_count: str
) -> None:
    """Zeros over several places that the index names: the rest of the segment is read all the same."""
    log = sorted(own_log.path.glob("*.log"))[1]
    offsets = zero(log, range(10_000, 16_000))

    rows = read(own_log.path, minPartitions=partitions_count, onCorruption="skip")

    assert rows == own_log.rows(offset for offset in range(3000) if offset not in offsets)


def test_a_batch_that_was_written_wrong_is_named_with_its_offset(tmp_path: Path) -> None:
    """Its checksum is correct, so the fault is noticed only after later batches were seen."""
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([b"value"] * 7)
        log.append_many([b"value"] * 7)
        log.append_many([b"value"] * 7)
    (path,) = (tmp_path / "orders-0").glob("*.log")
    first, second, third = (bytearray(batch) for batch, _, _ in batches_of(path))
    second[22] |= 1  # gzip, which its records are not
    struct.pack_into(">I", second, 17, crc32c(byte_array(second), 21, len(second)))
    path.write_bytes(first + second + third)

    with pytest.raises(CorruptRecordError, match="records of orders-0 from offset 7 on") as caught:
        read(tmp_path)

    assert caught.value.position == len(first)
    assert [row["offset"] for row in read(tmp_path, onCorruption="skip")] == [*range(7), *range(14, 21)]


@pytest.mark.parametrize("offset", [0, 2000], ids=["too low", "too high"])
def test_an_offset_that_is_damaged_is_found_by_its_neighbours(own_log: Made, offset: int) -> None:
    """No checksum covers it: its records would come with the offsets of others."""
    log = sorted(own_log.path.glob("*.log"))[1]
    batches = list(batches_of(log))
    position = sum(len(batch) for batch, _, _ in batches[:6])
    data = bytearray(log.read_bytes())
    struct.pack_into(">q", data, position, offset)
    log.write_bytes(data)

    with pytest.raises(CorruptRecordError, match="has a wrong offset") as caught:
        read(own_log.path)
    assert caught.value.path == str(log)
    assert caught.value.position == position + (0 if offset == 0 else len(batches[6][0]))
    _, base_offset, last_offset = batches[6]
    assert read(own_log.path, onCorruption="skip") == own_log.rows(
        each for each in range(3000) if not base_offset <= each <= last_offset
    )


def test_a_torn_tail_is_where_the_log_ends(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[-1]
    (own_log.path / ".kafka_cleanshutdown").unlink()
    *_, (_, base_offset, _) = batches_of(log)
    os.truncate(log, log.stat().st_size - 1)

    assert read(own_log.path) == own_log.rows(range(base_offset))


@pytest.mark.parametrize("damage", ["cut", "a length", "no magic"])
def test_a_log_that_was_closed_and_has_no_whole_batch_at_its_end_is_damaged(
    own_log: Made, damage: str
) -> None:
    """As a copy leaves it that was not finished."""
    log = sorted(own_log.path.glob("*.log"))[-1]
    *_, (last, base_offset, _) = batches_of(log)
    position = log.stat().st_size - len(last)
    if damage == "cut":
        os.truncate(log, position + len(last) - 1)
    else:
        flip(log, position + (8 if damage == "a length" else 16))

    with pytest.raises(
        CorruptRecordError, match=rf"from offset {base_offset} on.*onCorruption=skip"
    ) as caught:
        read(own_log.path)
    assert (caught.value.path, caught.value.position) == (str(log), position)
    assert read(own_log.path, onCorruption="skip") == own_log.rows(range(base_offset))


@pytest.mark.parametrize("partitions_count", ["1", "20"])
@pytest.mark.parametrize("zeros_size", [5, 3000])
def test_what_is_behind_damage_at_the_end_of_a_closed_log_is_read_without_it(
    own_log: Made, zeros_size: int, partitions_count: str
) -> None:
    log = sorted(own_log.path.glob("*.log"))[-1]
    log.with_suffix(".index").unlink()
    middle = log.stat().st_size // 2
    offsets = zero(log, range(middle, middle + zeros_size))

    with pytest.raises(CorruptRecordError):
        read(own_log.path)
    rows = read(own_log.path, minPartitions=partitions_count, onCorruption="skip")
    assert rows == own_log.rows(offset for offset in range(3000) if offset not in offsets)


def test_a_tail_of_which_only_the_header_was_written_is_not_read(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[-1]
    (own_log.path / ".kafka_cleanshutdown").unlink()
    *_, (last, base_offset, _) = batches_of(log)
    data = log.read_bytes()
    log.write_bytes(data[: -len(last)] + last[:61] + bytes(len(last) - 61))

    assert read(own_log.path) == own_log.rows(range(base_offset))


def test_zeros_of_a_preallocated_file_are_not_read(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[-1]
    os.truncate(log, log.stat().st_size + 100_000)

    assert read(own_log.path) == own_log.all_rows


def test_a_segment_that_is_cut_in_the_middle_of_the_log_is_damage(own_log: Made) -> None:
    log = sorted(own_log.path.glob("*.log"))[1]
    os.truncate(log, log.stat().st_size - 1)

    with pytest.raises(CorruptRecordError, match="onCorruption=skip"):
        read(own_log.path)
    *_, (_, _, last_offset) = batches_of(log)
    missing = range(last_offset + 1, int(sorted(own_log.path.glob("*.log"))[2].stem))
    assert missing
    assert read(own_log.path, onCorruption="skip") == own_log.rows(o for o in range(3000) if o not in missing)


def test_one_garbled_epoch_file_does_not_stop_reading_a_directory(own_log: Made) -> None:
    (own_log.path / "leader-epoch-checkpoint").write_bytes(bytes(8))

    assert read(own_log.path) == own_log.all_rows
