"""Several writes to one directory at once, and topics that come and go between staging and committing."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stratalog
from stratalog.directory.write_journal import (
    Journal,
    PartitionWrite,
    PendingWrite,
    StagedSegment,
    write_journal,
)
from stratalog.errors import LogDirLockedError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.jobs.writing.commit import Committer
from stratalog.jobs.writing.stage import begin_write
from stratalog.log.partition_metadata import topic_id_from_text
from tests.fixtures.catalog import log_dirs
from tests.jobs.writing.sinking import (
    Writing,
    by_partition,
    contents_of,
    names_in,
    offsets_and_values,
    staged_in,
    values,
    write,
)
from tests.manager.running import MARKER

ORDERS = {"topic": "orders", "partitions": "1"}
OLD, NEW = "CVmmc5E3Svq-PtfZ062cfg", "b3JkZXJzLW1hZGUtYW5ldw"


def test_a_commit_waits_for_that_of_another_write(tmp_path: Path) -> None:
    other, writing = Writing(str(tmp_path), **ORDERS), Writing(str(tmp_path), **ORDERS)
    other.task(values(b"a"))
    writing.task(values(b"b"))
    theirs = DirectoryLock(tmp_path)
    theirs.acquire()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        """The other write commits while this one waits the third time."""
        slept.append(seconds)
        if len(slept) == 3:
            theirs.release()
            other.commit()

    committer = Committer(writing.disk, writing.target, writing.name, clock=writing.clock, sleep=sleep)
    committer.commit(writing.staged)
    committer.discard()

    assert len(slept) == 3
    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a"), (1, b"b")]
    assert staged_in(tmp_path) == []


def test_a_commit_waits_for_a_write_that_began_just_before_it_took_the_lock(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"b"))
    theirs: list[Writing] = []
    slept: list[float] = []

    class Late(DirectoryLock):
        """Finds the lock taken by a write that was not there a moment ago."""

        def acquire(self, *, is_trial: bool = False) -> None:
            if not theirs:
                theirs.append(Writing(str(tmp_path), **ORDERS))
                theirs[0].task(values(b"a"))
                raise LogDirLockedError(str(tmp_path), "another write has it.")
            super().acquire(is_trial=is_trial)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        theirs[0].commit()

    committer = Committer(
        writing.disk, writing.target, writing.name, clock=writing.clock, make_lock=Late, sleep=sleep
    )
    committer.commit(writing.staged)

    assert len(slept) == 1
    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a"), (1, b"b")]


def test_a_commit_does_not_wait_for_a_broker(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"a"))

    def sleep(seconds: float) -> None:
        raise AssertionError(f"slept for {seconds} s")

    committer = Committer(writing.disk, writing.target, writing.name, clock=writing.clock, sleep=sleep)
    with DirectoryLock(tmp_path), pytest.raises(LogDirLockedError):
        committer.commit(writing.staged)


def test_a_write_begins_while_another_one_commits(tmp_path: Path) -> None:
    Writing(str(tmp_path), **ORDERS)

    with DirectoryLock(tmp_path):
        writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"a"))
    writing.commit()

    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a")]


def test_a_log_that_is_open_by_itself_is_left_alone(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), topic="other", partitions="1")
    writing.task(values(b"a"))

    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"1")
        with pytest.raises(LogDirLockedError):
            Writing(str(tmp_path), **ORDERS)
        with pytest.raises(LogDirLockedError):
            writing.commit()
        log.append(b"2")
    writing.commit()

    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"1"), (1, b"2")]
    assert offsets_and_values(contents_of(tmp_path), "other-0") == [(0, b"a")]


def test_many_writes_at_once_are_all_there(tmp_path: Path) -> None:
    def write_some(number: int) -> None:
        for batch in range(5):
            writing = Writing(str(tmp_path), topic=f"topic{number % 2}", partitions="1")
            writing.task(values(b"%d %d" % (number, batch)))
            writing.commit()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write_some, range(4)))

    contents = contents_of(tmp_path)
    found = [value for topic in ("topic0", "topic1") for value in by_partition(contents, topic)[0]]
    assert sorted(map(bytes.decode, filter(None, found))) == sorted(
        f"{number} {batch}" for number in range(4) for batch in range(5)
    )
    assert staged_in(tmp_path) == []


def test_a_stream_that_gives_up_leaves_alone_what_another_run_of_it_commits(tmp_path: Path) -> None:
    running = Writing(str(tmp_path), **ORDERS)
    running.task(values(b"a"))
    again = Writing(str(tmp_path), **ORDERS)
    stream = running.name[:24]
    committer = Committer(again.disk, again.target, again.name, stream=stream, clock=again.clock)

    with DirectoryLock(tmp_path):  # the first run commits
        committer.discard()
    assert [name for name in staged_in(tmp_path) if again.name in name] == []
    running.committer.commit(running.staged)
    committer.discard()

    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a")]
    assert staged_in(tmp_path) == []


def test_a_commit_waits_for_a_stream_that_clears_up_after_an_earlier_run(tmp_path: Path) -> None:
    writing = Writing(str(tmp_path), **ORDERS)
    writing.task(values(b"a"))
    killed, again = "feed1", "feed2"
    begin_write(writing.disk, str(tmp_path), killed)
    begin_write(writing.disk, str(tmp_path), again)
    slept: list[float] = []

    class Held(DirectoryLock):
        """Lets another write commit when the stream has cleared up and is about to give the lock back."""

        def release(self) -> None:
            def sleep(seconds: float) -> None:
                slept.append(seconds)
                DirectoryLock.release(self)

            target, name, clock = writing.target, writing.name, writing.clock
            Committer(writing.disk, target, name, clock=clock, sleep=sleep).commit(writing.staged)

    stream = Committer(
        writing.disk, writing.target, again, stream="feed", clock=writing.clock, make_lock=Held
    )
    stream.discard()
    writing.committer.discard()

    assert len(slept) == 1
    assert offsets_and_values(contents_of(tmp_path), "orders-0") == [(0, b"a")]
    assert staged_in(tmp_path) == []


def test_a_topic_that_was_deleted_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(log_dirs("4.3.1", "clean")[0], data)
    writing = Writing(str(data), topic="codecs")
    writing.task(values(b"a"))
    shutil.rmtree(data / "codecs-0")

    with pytest.raises(UsageError, match="codecs-0 is gone: its topic was deleted"):
        writing.commit()

    writing.committer.discard()
    assert "codecs-0" not in names_in(data)
    assert staged_in(data) == []


@pytest.mark.parametrize("is_waiting", [False, True], ids=["decided", "waiting"])
def test_what_was_written_to_a_topic_does_not_get_into_one_made_anew(
    tmp_path: Path, is_waiting: bool
) -> None:
    data, made_anew = tmp_path / "data", tmp_path / "anew"
    data.mkdir()
    made_anew.mkdir()
    write(str(data), values(b"a", b"b"), **ORDERS, topicId=OLD)
    journal = decided(data, b"c")
    journal = Journal(waiting=journal.pending.partitions) if is_waiting and journal.pending else journal
    write_journal(Disk(), str(data), journal)
    # A broker comes, deletes the topic, makes another one and is killed.
    write(str(made_anew), values(b"new"), **ORDERS, topicId=NEW)
    shutil.rmtree(data / "orders-0")
    (made_anew / "orders-0").rename(data / "orders-0")
    (data / MARKER).unlink()

    write(str(data), values(b"newer"), **ORDERS)

    assert offsets_and_values(contents_of(data), "orders-0") == [(0, b"new"), (1, b"newer")]


def decided(directory: Path, value: bytes) -> Journal:
    """The journal of a write that adds one record after the two of orders-0."""
    writing = Writing(str(directory), **ORDERS)
    writing.task(values(value))
    (staged,) = writing.staged
    return Journal(
        pending=PendingWrite(
            write=writing.name,
            partitions=(
                PartitionWrite(
                    topic_partition=staged.topic_partition,
                    topic_id=topic_id_from_text(OLD),
                    is_new=False,
                    previous=(0, (directory / "orders-0" / f"{0:020d}.log").stat().st_size),
                    segments=(
                        StagedSegment(staged=staged.staged, base_offset=2, size=staged.size, records_count=1),
                    ),
                ),
            ),
        )
    )
