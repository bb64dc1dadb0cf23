"""A committed write is finished: its staged segments get their names in their logs, once."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from stratalog.directory.pending_write import finish_pending_write
from stratalog.directory.write_journal import (
    Journal,
    PartitionWrite,
    PendingWrite,
    StagedSegment,
    read_journal,
    write_journal,
)
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk

DATA, LOG = "/data", "/data/orders-0"
STAGED = "stratalog-write-5f0c-0-0"
OLD = {f"{LOG}/{0:020d}.log": b"four"}
NEW = {"log": b"12345", "index": b"", "timeindex": b"t"}
WRITE = PartitionWrite(
    topic_partition=TopicPartition("orders", 0),
    topic_id=None,
    is_new=False,
    previous=(0, 4),
    segments=(StagedSegment(staged=STAGED, base_offset=7, size=5, records_count=3),),
)
FINISHED = {**OLD, **{f"{LOG}/{7:020d}.{kind}": data for kind, data in NEW.items()}}


def committed(write: PartitionWrite = WRITE, files: dict[str, bytes] = OLD) -> SimulatedDisk:
    """A directory with a staged segment, and a journal that says where it goes."""
    disk = SimulatedDisk.of({**files, **{f"{DATA}/{STAGED}.{kind}": data for kind, data in NEW.items()}})
    write_journal(disk, DATA, Journal(pending=PendingWrite(write="5f0c", partitions=(write,))))
    return disk


def without_journal(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.contents().items() if not path.endswith(".json")}


def staged_in(disk: SimulatedDisk) -> bool:
    return any(STAGED in path for path in disk.contents())


def test_staged_segments_get_their_names_and_nothing_is_pending_any_more() -> None:
    disk = committed()

    journal = finish_pending_write(disk, DATA)

    assert without_journal(disk) == FINISHED
    assert journal == read_journal(disk, DATA) == Journal()


def test_a_power_cut_at_any_step_is_made_up_for_by_the_next_run() -> None:
    counting = committed()
    first = counting.steps
    finish_pending_write(counting, DATA)
    assert counting.steps > first

    for step in range(first + 1, counting.steps + 1):
        disk = committed()
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            finish_pending_write(disk, DATA)
        for found in disk.crash():
            finish_pending_write(found, DATA)
            assert without_journal(found) == FINISHED, step


@pytest.mark.parametrize(
    "changed",
    [
        {f"{LOG}/{0:020d}.log": b"fourmore"},  # a broker appended at the old end
        {**OLD, f"{LOG}/{4:020d}.log": b"rolled"},
        {**OLD, f"{LOG}/{7:020d}.log": b"theirs"},
    ],
    ids=["appended", "rolled", "the same base"],
)
def test_a_write_whose_place_is_taken_waits_with_its_bytes(
    changed: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    disk = committed(files=changed)

    journal = finish_pending_write(disk, DATA)

    assert (journal.pending, journal.waiting) == (None, (WRITE,))
    assert {path: data for path, data in disk.contents().items() if path in changed} == changed
    assert staged_in(disk)
    assert "changed by another program" in caplog.text


def test_an_empty_last_segment_of_the_same_base_is_replaced() -> None:
    disk = committed(files={**OLD, f"{LOG}/{7:020d}.log": b""})

    assert finish_pending_write(disk, DATA).waiting == ()
    assert without_journal(disk) == FINISHED


def test_a_new_partition_is_made_with_its_topic_s_id() -> None:
    # The id and its text are those of a partition.metadata that a 4.3.1 broker wrote.
    topic_id = UUID("0959a673-9137-4afa-be3e-d7d9d3ad9c7e")
    disk = committed(replace(WRITE, is_new=True, topic_id=topic_id, previous=None), {})
    disk.make_directories(DATA)

    finish_pending_write(disk, DATA)

    assert disk.contents()[f"{LOG}/partition.metadata"] == b"version: 0\ntopic_id: CVmmc5E3Svq-PtfZ062cfg"
    assert disk.contents()[f"{LOG}/{7:020d}.log"] == NEW["log"]


def test_a_topic_that_was_made_anew_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    metadata = {f"{LOG}/partition.metadata": b"version: 0\ntopic_id: CVmmc5E3Svq-PtfZ062cfg"}
    disk = committed(replace(WRITE, topic_id=UUID(int=5)), {**OLD, **metadata})

    assert finish_pending_write(disk, DATA) == Journal()

    assert {path for path in disk.contents() if path.startswith(LOG)} == {*OLD, *metadata}
    assert "deleted and created again, so 3 records are not written" in caplog.text


def test_a_partition_that_is_gone_is_not_made_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = committed(files={f"{DATA}/other-0/x": b""})

    assert finish_pending_write(disk, DATA) == Journal()

    assert not disk.exists(LOG)
    assert "no longer exists, so 3 records are not written" in caplog.text


def test_a_batch_of_a_stream_is_known_as_written() -> None:
    disk = committed()
    journal = read_journal(disk, DATA)
    assert journal.pending is not None
    stream = replace(journal.pending, query="q", batch=4)
    write_journal(disk, DATA, replace(journal, pending=stream, committed={"other": 9}))

    done = finish_pending_write(disk, DATA)

    assert done.committed == {"q": 4, "other": 9}
    assert (done.has("q", 4), done.has("q", 5), done.has(None, 0)) == (True, False, False)
