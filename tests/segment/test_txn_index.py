from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import CorruptIndexError, InvalidOffsetError
from stratalog.files.disk import Disk
from stratalog.segment.txn_index import ENTRY_SIZE, AbortedTxn, TransactionIndex, refused_version

FIVE = [
    AbortedTxn(0, 0, 10, 11),
    AbortedTxn(1, 5, 15, 13),
    AbortedTxn(2, 18, 35, 25),
    AbortedTxn(3, 32, 50, 40),
]


@pytest.fixture
def index(tmp_path: Path) -> TransactionIndex:
    return open_index(tmp_path)


def open_index(folder: Path, base_offset: int = 0) -> TransactionIndex:
    return TransactionIndex(Disk(), folder / "00000000000000000000.txnindex", base_offset)


def fill(index: TransactionIndex) -> None:
    for aborted in FIVE:
        index.append(aborted)


def test_an_entry_is_the_bytes_that_kafka_writes(index: TransactionIndex) -> None:
    index.append(AbortedTxn(1, 0, 29, 8))

    golden = "000000000000000000010000000000000000000000000000001d0000000000000008"
    assert Path(index.path).read_bytes().hex() == golden


def test_there_is_no_file_before_the_first_entry(index: TransactionIndex) -> None:
    index.flush()
    index.truncate_to(5)
    index.reset()
    index.sanity_check()

    assert index.is_empty
    assert index.collect(0, 100) == ([], False)
    assert not Path(index.path).exists()


def test_a_reopened_index_goes_on_behind_its_entries(index: TransactionIndex, tmp_path: Path) -> None:
    fill(index)
    index.close()
    again = open_index(tmp_path)

    again.append(AbortedTxn(4, 51, 60, 51))

    assert again.all_aborted() == [*FIVE, AbortedTxn(4, 51, 60, 51)]
    assert Path(index.path).stat().st_size == 5 * ENTRY_SIZE


@pytest.mark.parametrize("last_offset", [50, 49])
def test_markers_must_ascend(index: TransactionIndex, last_offset: int) -> None:
    fill(index)

    with pytest.raises(InvalidOffsetError):
        index.append(AbortedTxn(9, 0, last_offset, 60))


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "found", "is_complete"),
    [
        (0, 100, FIVE, False),
        (0, 32, FIVE[:3], True),
        (0, 35, FIVE, True),
        (10, 35, FIVE, True),
        (11, 35, FIVE[1:], True),
        (20, 41, FIVE[2:], False),
    ],
)
def test_what_touches_a_fetch_and_whether_more_may_follow(
    index: TransactionIndex, fetch_offset: int, upper_bound: int, found: list[AbortedTxn], is_complete: bool
) -> None:
    fill(index)

    assert index.collect(fetch_offset, upper_bound) == (found, is_complete)


def test_truncation_goes_by_the_marker(index: TransactionIndex) -> None:
    fill(index)

    index.truncate_to(51)
    assert index.all_aborted() == FIVE
    index.truncate_to(50)
    assert index.all_aborted() == FIVE[:3]
    assert Path(index.path).stat().st_size == 3 * ENTRY_SIZE
    index.append(FIVE[3])
    assert index.all_aborted() == FIVE
    index.reset()
    assert (index.all_aborted(), Path(index.path).stat().st_size) == ([], 0)


def test_a_torn_entry_is_ignored_and_written_over(index: TransactionIndex, tmp_path: Path) -> None:
    fill(index)
    path = Path(index.path)
    path.write_bytes(path.read_bytes()[:-5])
    again = open_index(tmp_path)

    again.sanity_check()

    assert again.all_aborted() == FIVE[:3]
    again.append(FIVE[3])
    assert path.read_bytes() == b"".join(aborted.to_bytes() for aborted in FIVE)


@pytest.mark.parametrize(
    "entries",
    [
        [AbortedTxn(1, 0, 29, 8)],  # a marker below the segment
        [AbortedTxn(1, 100, 129, 108), AbortedTxn(2, 100, 129, 130)],
        [AbortedTxn(1, 140, 129, 108)],
        [AbortedTxn(1, 100, 129, 108, version=0x0100)],
    ],
)
def test_damage_is_found(tmp_path: Path, entries: list[AbortedTxn]) -> None:
    index = open_index(tmp_path, base_offset=100)
    Path(index.path).write_bytes(b"".join(aborted.to_bytes() for aborted in entries))

    with pytest.raises(CorruptIndexError):
        index.sanity_check()


def test_the_low_byte_of_the_version_is_not_looked_at(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    Path(index.path).write_bytes(AbortedTxn(1, 0, 29, 8, version=0x0001).to_bytes())

    assert index.all_aborted() == [AbortedTxn(1, 0, 29, 8, version=1)]


def test_an_unknown_version_is_not_read(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    Path(index.path).write_bytes(AbortedTxn(1, 0, 29, 8, version=0x0100).to_bytes())

    with pytest.raises(CorruptIndexError, match="version 1"):
        index.collect(0, 100)


def test_entries_follow_a_rename(index: TransactionIndex, tmp_path: Path) -> None:
    index.append(FIVE[0])
    index.rename_to(str(tmp_path / "moved"))
    index.append(FIVE[1])
    index.flush()

    assert (tmp_path / "moved").stat().st_size == 2 * ENTRY_SIZE
    assert index.delete()
    assert list(tmp_path.iterdir()) == []


def entry(version: int, last_offset: int) -> bytes:
    return AbortedTxn(1, 0, last_offset, 0, version).to_bytes()


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (b"", None),
        (entry(0, 30) * 3, None),
        (entry(0x0100, 30), 1),
        (entry(0x0001, 30), None),  # Kafka looks at the first byte only
        (entry(0, 30) + entry(0x0500, 40), 5),
        (entry(0, 19) + entry(0x0500, 40), None),  # rebuilt before it comes to that
        (entry(0x0500, 30)[:-1], None),
    ],
)
def test_an_entry_for_which_a_broker_does_not_start(data: bytes, version: int | None) -> None:
    assert refused_version(data, 20) == version
