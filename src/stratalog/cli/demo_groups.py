"""The transactions of `stratalog demo`, and what its consumer groups have committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from stratalog.files.disk import Disk
from stratalog.files.names import FileKind, TopicPartition, partition_directory_name, segment_file_name
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.internal.encode import encode_coordinator
from stratalog.records.internal_topics import CONSUMER_OFFSETS

TRANSFERS = TopicPartition("transfers", 0)
COMMITS = TopicPartition(CONSUMER_OFFSETS, 0)
TRANSACTIONS = 40
RECORDS_IN_A_TRANSACTION = 5
PRODUCER = 1000
EVERY_SO_MANY_ABORT = 7
GROUPS = {"billing": 0.9, "reports": 0.4}  # the part of each partition that the group has consumed


def write_transfers(disk: Disk, directory: Path, start_ms: int) -> None:
    """Transactions of one producer: most are committed, some aborted, and the last one is still open."""
    folder = _folder(directory, TRANSFERS)
    disk.append(folder / segment_file_name(0, FileKind.LOG), b"".join(_transfers(start_ms)))


def write_commits(disk: Disk, directory: Path, ends: Mapping[TopicPartition, int], start_ms: int) -> None:
    """Write what two groups have committed in each partition; `ends` has the end of its log."""
    records = [
        Record(number, start_ms + number, key, value)
        for number, (key, value) in enumerate(_commits(ends, start_ms))
    ]
    folder = _folder(directory, COMMITS)
    options = BatchOptions(partition_leader_epoch=0)
    disk.append(folder / segment_file_name(0, FileKind.LOG), build_batch(records, options))


def _folder(directory: Path, partition: TopicPartition) -> Path:
    folder = directory / partition_directory_name(partition)
    folder.mkdir(parents=True)
    return folder


def _transfers(start_ms: int) -> Iterator[bytes]:
    offset = sequence = 0
    for number in range(TRANSACTIONS):
        now_ms = start_ms + number * 1000
        records = [
            Record(offset + each, now_ms, b"account-%03d" % number, b'{"cents": %d}' % (100 * number + each))
            for each in range(RECORDS_IN_A_TRANSACTION)
        ]
        yield build_batch(
            records,
            BatchOptions(
                partition_leader_epoch=0,
                producer_id=PRODUCER,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            ),
        )
        offset, sequence = offset + len(records), sequence + len(records)
        if number == TRANSACTIONS - 1:
            return
        is_aborted = number % EVERY_SO_MANY_ABORT == EVERY_SO_MANY_ABORT - 1
        marker = EndTxnMarker(ControlType.ABORT if is_aborted else ControlType.COMMIT, coordinator_epoch=0)
        yield build_batch(
            [Record(offset, now_ms, marker.key_bytes(), marker.value_bytes())],
            BatchOptions(
                partition_leader_epoch=0,
                producer_id=PRODUCER,
                producer_epoch=0,
                is_transactional=True,
                is_control=True,
            ),
        )
        offset += 1


def _commits(ends: Mapping[TopicPartition, int], start_ms: int) -> Iterator[tuple[bytes, bytes | None]]:
    for group, share in GROUPS.items():
        for partition, end in sorted(ends.items()):
            yield encode_coordinator(
                "OffsetCommitKey",
                {"group": group, "topic": partition.topic, "partition": partition.partition},
                "OffsetCommitValue",
                {"offset": int(end * share), "leaderEpoch": 0, "metadata": "", "commitTimestamp": start_ms},
                version=3,
            )
