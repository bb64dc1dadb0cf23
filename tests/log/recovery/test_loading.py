"""What Kafka's loader is tested for and no other test here shows: logs that lost some of their files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stratalog.records.control import ControlType
from tests.log.model import append_marker, batch, produced, read_all
from tests.log.recovery.directory import Directory, comparable


def with_transactions(root: Path) -> Directory:
    """A closed log of several segments, in which transactions were aborted, committed and left open."""
    directory = Directory(root, internal_segment_bytes=300, index_interval_bytes=100)
    log = directory.open()
    for number in range(6):
        log.append_as_leader(produced(1, number, b"a", transactional=True), leader_epoch=0)
        log.append_as_leader(produced(2, number, b"b", transactional=True), leader_epoch=0)
        append_marker(log, 1, ControlType.ABORT if number % 2 else ControlType.COMMIT)
        append_marker(log, 2, ControlType.ABORT)
    log.append_as_leader(produced(3, 0, b"open", transactional=True), leader_epoch=0)
    log.close()
    return directory


@pytest.mark.parametrize(
    ("suffixes", "last_only"),
    [
        ((".index", ".timeindex", ".txnindex"), False),
        ((".index", ".timeindex", ".txnindex"), True),
        ((".index", ".timeindex", ".txnindex", ".snapshot"), True),
        ((".snapshot",), False),
    ],
)
def test_indexes_and_snapshots_that_are_lost_come_back_as_they_were(
    tmp_path: Path, suffixes: tuple[str, ...], last_only: bool
) -> None:
    directory = with_transactions(tmp_path / "data")
    before = directory.contents()
    last = max(directory.offsets(".log"))
    for path in [*directory.path.iterdir()]:
        if path.suffix in suffixes and (not last_only or int(path.stem) >= last):
            path.unlink()

    directory.recover()

    after = directory.contents()
    kept = (".log", ".index", ".timeindex", ".txnindex")
    assert {name: data for name, data in after.items() if name.endswith(kept)} == {
        name: data for name, data in before.items() if name.endswith(kept)
    }
    end = f"{directory.open().log_end_offset:020d}.snapshot"
    assert comparable({end: after[end]}) == comparable({end: before[end]})


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_behind_the_log_and_in_its_index_cost_no_record(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    directory = Directory(tmp_path / "data", internal_segment_bytes=300, index_interval_bytes=100)
    log = directory.open()
    values = [rng.randbytes(rng.randrange(1, 60)) for _ in range(rng.randrange(1, 20))]
    for value in values:
        log.append_as_leader(batch(value), leader_epoch=0)
    log.close()
    last = max(directory.offsets(".log"))
    directory.append(last, ".log", rng.randbytes(rng.randrange(1, 500)))
    if directory.file(last, ".index").exists():
        directory.append(last, ".index", rng.randbytes(rng.randrange(1, 500)))

    directory.recover()

    assert [record.value for record in read_all(directory.open())] == values


def test_a_recovered_log_can_be_truncated_to_one_segment(tmp_path: Path) -> None:
    directory = with_transactions(tmp_path / "data")
    directory.recover()
    log = directory.open()

    log.truncate_to(1)

    assert (len([*log.segments]), log.log_end_offset) == (1, 1)
    assert [record.value for record in read_all(log)] == [b"a"]


def test_a_producer_whose_segment_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "data")
    log = directory.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)
    log.roll()
    log.append_as_leader(produced(2, 0, b"b"), leader_epoch=0)
    log.close()
    directory.delete(0, ".log", ".index", ".timeindex")
    for offset in directory.offsets(".snapshot"):
        directory.delete(offset, ".snapshot")

    directory.recover(log_start_offset=1)

    assert set(directory.snapshot(2)) == {2}
