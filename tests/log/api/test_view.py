"""Read-only: nothing is locked, created or changed, while others may write."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NoReturn

import pytest

from stratalog import open_log
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.log.api.looking import ATTEMPTS
from stratalog.log.api.view import LogView
from stratalog.log.log_end import Left
from tests.fixtures.catalog import Partition, partitions
from tests.log.model import batch as batch_of
from tests.log.model import produced

DATA = [p for p in partitions() if not p.name.startswith("__cluster_metadata")]


def snapshot(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below, with inode and time of change."""
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


class ReadOnlyMount(Disk):
    """A disk on which every change fails, as on a mount that is read-only."""

    def _refuse(self, path: str, *_: object) -> NoReturn:
        raise DiskError(path, "the file system is read-only.", errno.EROFS)

    append = create = delete = make_directory = rename = replace = _refuse
    set_modified = sync = sync_directory = truncate = write_at = _refuse


def in_kafka_s_words(partition: Partition) -> list[tuple[object, ...]]:
    """Offset, timestamp, key and value of each record that is not a marker, by Kafka's own classes."""
    return [
        (record["offset"], record["timestamp"], record["key"], record["value"])
        for batch in partition.batches()
        if not batch.get("isControl") and batch["valid"]
        for record in batch["records"]
    ]


def in_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@pytest.mark.parametrize("partition", DATA, ids=str)
def test_a_broker_s_partition_reads_as_kafka_reads_it(partition: Partition) -> None:
    before = snapshot(partition.path.parent)
    kafka = in_kafka_s_words(partition)

    with open_log(partition.path, read_only=True, disk=ReadOnlyMount()) as view:
        found = [(r.offset, r.timestamp, in_hex(r.key), in_hex(r.value)) for r in view.records()]
        table = view.to_arrow(["offset", "value"])
        start = view.start_offset
        assert view.last_stable_offset <= view.end_offset

    assert found == [record for record in kafka if isinstance(record[0], int) and record[0] >= start]
    assert table["offset"].to_pylist() == [record[0] for record in found]
    assert snapshot(partition.path.parent) == before


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_reader_of_committed_records_sees_no_aborted_one(state: str) -> None:
    (partition,) = [p for p in partitions("4.3.1", state) if p.name == "txn-0"]
    batches = list(partition.batches())
    # By the order of the batches alone: a producer's records count when its next marker says COMMIT.
    waiting: dict[int, list[int]] = {}
    expected: list[int] = []
    for batch in batches:
        offsets = [record["offset"] for record in batch["records"]]
        if batch["isControl"]:
            commits = bytes.fromhex(batch["records"][0]["key"])[3] == 1
            expected += waiting.pop(batch["producerId"], []) if commits else []
            waiting.pop(batch["producerId"], None)
        elif batch["isTransactional"]:
            waiting.setdefault(batch["producerId"], []).extend(offsets)
        else:
            expected += offsets
    first_open = min((offsets[0] for offsets in waiting.values()), default=2**63)

    with open_log(partition.path, read_only=True) as view:
        found = [record.offset for record in view.records(isolation="read_committed")]

    assert found == sorted(offset for offset in expected if offset < first_open)
    assert len(found) < sum(len(batch["records"]) for batch in batches if not batch["isControl"])


def test_a_view_sees_what_is_appended_rolled_and_deleted(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with (
        open_log(directory, create=True, config={"segment.bytes": 1 << 20}) as log,
        open_log(directory, read_only=True) as view,
    ):
        assert list(view.records()) == []
        for number in range(5):
            log.append(b"%d" % number + b"x" * 400_000)
            assert view.end_offset == number
            assert len(list(view.records())) == number + 1
        assert view.metrics()["NumLogSegments"] == 3
        log.truncate_to(1)
        assert [record.offset for record in view.records()] == [0]
        log.append(b"again")
        assert [record.value for record in view.records(1)] == [b"again"]


def test_a_view_finds_times_that_the_writer_has_not_indexed_yet(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(100):
            log.append(b"value" * 20, timestamp=1_700_000_000_000 + number)
        with open_log(tmp_path / "orders-0", read_only=True) as view:
            assert view.offset_for_time(1_700_000_000_099) == 99
            assert view.offset_for_time(1_700_000_000_100) is None
            assert view.offset_of_newest() == 99


def test_a_view_is_tailed_over_a_roll(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log, open_log(directory, read_only=True) as view:
        turns = [lambda: log.append(b"a"), lambda: log.log.roll(), lambda: log.append(b"b")]

        class Stop:
            def wait(self, timeout: float | None = None) -> bool:
                if not timeout:
                    return False
                if not turns:
                    return True
                turns.pop(0)()
                return False

        assert [record.value for record in view.tail(stop=Stop())] == [b"a", b"b"]


def test_a_view_works_beside_whoever_holds_the_lock(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with open_log(directory, create=True) as log:
        log.append(b"a")

    with DirectoryLock(directory), open_log(directory, read_only=True) as view:
        assert len(list(view.records())) == 1


def test_nothing_can_be_changed_through_a_view(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    open_log(directory, create=True).close()
    with open_log(directory, read_only=True) as view:
        assert view.is_read_only
        for change in (
            lambda: view.append(b"a"),
            lambda: view.truncate_to(0),
            lambda: view.delete_records(0),
            view.flush,
            lambda: view.log,
        ):
            with pytest.raises(UsageError, match="read_only"):
                change()
    for options in ({"create": True}, {"topic_id": "CVmmc5E3Svq-PtfZ062cfg"}):
        with pytest.raises(UsageError, match="read_only"):
            open_log(directory, read_only=True, **options)


def test_an_empty_directory_is_an_empty_log(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    with open_log(directory, read_only=True) as view:
        assert list(view.records()) == []
        assert (view.start_offset, view.end_offset, view.offset_for_time(0)) == (0, 0, None)
    assert list(directory.iterdir()) == []


def test_a_view_follows_the_start_of_the_log(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([b"a", b"b", b"c"])
        with open_log(tmp_path / "orders-0", read_only=True) as view:
            assert [record.value for record in view.records()] == [b"a", b"b", b"c"]

            log.delete_records(2)

            assert [record.value for record in view.records()] == [b"c"]
            assert view.start_offset == 2


def test_a_view_of_a_directory_without_segments_has_no_newest_record(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()

    with open_log(tmp_path / "orders-0", read_only=True) as view:
        assert view.offset_of_newest() is None


def test_a_view_knows_the_producers_of_a_log(tmp_path: Path) -> None:
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append_batch(produced(7, 0, b"a", b"b"))
        log.append_batch(produced(5, 0, b"c", transactional=True))
        view = LogView(
            disk=DiskReader(),
            clock=system_clock,
            directory=tmp_path / "orders-0",
            topic_partition=TopicPartition("orders", 0),
            config=LogConfig(),
        )

        found = view.producers()

        assert [(each.producer_id, each.last_sequence) for each in found] == [(5, 0), (7, 1)]
        assert [each.current_txn_first_offset for each in found] == [2, None]
        view.close()


class WrittenView(LogView):
    """A view of a log to whose newest file some bytes are added before each new look."""

    pieces: list[bytes]

    def look_again(self) -> None:
        with Path(self.directory, f"{0:020d}.log").open("ab") as file:
            file.write(self.pieces.pop(0))
        super().look_again()


def view_of_a_torn_batch(directory: Path, pieces_count: int) -> WrittenView:
    """Of a log of two batches, below a checkpoint. The last bytes of the second come one by one."""
    first, second = batch_of(b"a"), batch_of(b"b" * 100, base_offset=1)
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(first + second[:-pieces_count])
    view = WrittenView(
        disk=Disk(),
        clock=system_clock,
        directory=directory,
        topic_partition=TopicPartition("orders", 0),
        config=LogConfig(),
        left=Left(recovery_point=2, is_in_use=True),
    )
    view.pieces = [second[at : at + 1] for at in range(len(second) - pieces_count, len(second))]
    return view


def test_damage_below_a_checkpoint_is_not_told_if_a_second_look_does_not_find_it(tmp_path: Path) -> None:
    view = view_of_a_torn_batch(tmp_path / "orders-0", 1)

    end = view.valid_end()

    assert (end.offset, end.missing_end) == (2, None)
    assert view.pieces == []


def test_a_batch_that_grows_from_look_to_look_is_not_damage(tmp_path: Path) -> None:
    view = view_of_a_torn_batch(tmp_path / "orders-0", 50)

    end = view.valid_end()

    assert (end.offset, end.missing_end, end.hides_something) == (1, None, False)
    assert len(view.pieces) == 50 - ATTEMPTS


def test_a_torn_batch_that_stays_as_it_is_below_a_checkpoint_is_damage(tmp_path: Path) -> None:
    view = view_of_a_torn_batch(tmp_path / "orders-0", 1)
    view.pieces = [b""]

    end = view.valid_end()

    assert (end.offset, end.missing_end) == (1, 2)
    assert view.pieces == []
