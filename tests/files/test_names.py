"""Names, against the answers of Kafka 4.3.1's LocalLog, LogFileUtils and Topic to the same names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidNameError, UsageError
from stratalog.files.names import (
    DirectoryState,
    FileKind,
    FileState,
    KRaftSnapshotFile,
    PartitionDirectory,
    SegmentFile,
    TopicPartition,
    check_new_partition,
    check_one_meaning,
    check_topic_name,
    near_name,
    parse_kraft_snapshot_file,
    parse_partition_directory,
    parse_segment_file,
    partition_directory_name,
    segment_file_name,
)

ID = "5c6f714c256442dc85fc333f4b1efa4c"

PARTITION_DIRECTORIES = {
    "t-0": ("t", 0, ""),
    "a-b-3": ("a-b", 3, ""),
    "a.b-7": ("a.b", 7, ""),
    "t--1": ("t-", 1, ""),
    "--1": ("-", 1, ""),
    "t-+5": ("t", 5, ""),
    "t-00": ("t", 0, ""),
    "t-2147483647": ("t", 2147483647, ""),
    "t t-0": ("t t", 0, ""),
    "t-\uff11": ("t", 1, ""),  # a wide digit one
    f"t-0.{ID}-delete": ("t", 0, "-delete"),
    f"t-0.{ID}-future": ("t", 0, "-future"),
    f"t-0.{ID}-stray": ("t", 0, "-stray"),
    f"a.b-c-0.{ID}-delete": ("a.b-c", 0, "-delete"),
    "t-0.x-delete": ("t", 0, "-delete"),
    "a-0.b-1.c-delete": ("a-0.b", 1, "-delete"),
    "t\u00a0t-0.x-delete": ("t\u00a0t", 0, "-delete"),
    f"t-0.{ID}-delete-1": (f"t-0.{ID}-delete", 1, ""),
}


@pytest.mark.parametrize("name", PARTITION_DIRECTORIES)
def test_a_partition_directory_is_read_as_by_kafka(name: str) -> None:
    topic, partition, suffix = PARTITION_DIRECTORIES[name]

    assert parse_partition_directory(name) == (TopicPartition(topic, partition), DirectoryState(suffix))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "-0",
        "---",
        "t",
        "t-",
        "t-x",
        "t-1 ",
        "t- 1",
        "t-1_0",
        "t-2147483648",
        "t-9999999999999999999999",
        "t-" + "9" * 5000,
        "lost+found",
        "remote-log-index-cache",
        "t-0-delete",
        "t-0-future",
        "t-0.-delete",
        "t-0.x-DELETE",
        "t-0.x-deletex",
        "t-0.future",
        "t.x-0-delete",
        "t t-0.x-delete",
        "t-0.a.b-delete",
        "x-1.z-delete.z-stray",
        "-delete",
    ],
)
def test_a_directory_that_stops_a_broker_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError, match="does not start") as caught:
        parse_partition_directory(name)

    assert caught.value.name == name


def test_a_marked_directory_is_named_as_by_kafka() -> None:
    partition = TopicPartition("t", 5)

    assert partition_directory_name(partition) == "t-5"
    assert partition_directory_name(partition, DirectoryState.DELETE, ID) == f"t-5.{ID}-delete"
    assert partition_directory_name(partition, DirectoryState.FUTURE, ID) == f"t-5.{ID}-future"
    assert partition_directory_name(partition, DirectoryState.STRAY, ID) == f"t-5.{ID}-stray"


def test_the_topic_is_cut_where_the_name_would_be_too_long() -> None:
    partition = TopicPartition("a" * 249, 2147483647)

    # LocalLog.logDeleteDirName kept 204 characters of this topic, logStrayDirName 205, logFutureDirName all.
    assert partition_directory_name(partition, DirectoryState.DELETE, ID) == (
        "a" * 204 + f"-2147483647.{ID}-delete"
    )
    assert partition_directory_name(partition, DirectoryState.STRAY, ID) == (
        "a" * 205 + f"-2147483647.{ID}-stray"
    )
    assert partition_directory_name(partition, DirectoryState.FUTURE, ID) == (
        "a" * 249 + f"-2147483647.{ID}-future"
    )


@pytest.mark.parametrize("unique_id", ["", ID.upper(), ID[:-1], ID + "0"])
def test_a_marked_directory_needs_an_id_of_32_hex_digits(unique_id: str) -> None:
    with pytest.raises(InvalidNameError):
        partition_directory_name(TopicPartition("t", 0), DirectoryState.DELETE, unique_id)


@given(
    st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.sampled_from(DirectoryState),
)
def test_directories_come_back(topic: str, partition: int, state: DirectoryState) -> None:
    name = partition_directory_name(TopicPartition(topic, partition), state, ID)
    found = parse_partition_directory(name)

    assert found.state is state
    if state is DirectoryState.FUTURE or len(topic) <= 204:
        assert found == PartitionDirectory(TopicPartition(topic, partition), state)


@pytest.mark.parametrize("topic", ["a", "...", "a.b_c-D9", "a" * 249])
def test_kafkas_topic_names_are_accepted(topic: str) -> None:
    check_topic_name(topic)


@pytest.mark.parametrize("topic", ["", ".", "..", " ", "a b", "a/b", "\u00e9", "a\u0661", "a\n", "a" * 250])
def test_other_topic_names_are_refused(topic: str) -> None:
    with pytest.raises(InvalidNameError):
        check_topic_name(topic)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("00000000000000000000.log", (0, FileKind.LOG, FileState.LIVE)),
        ("00000000000000000005.log.cleaned", (5, FileKind.LOG, FileState.CLEANED)),
        ("00000000000000000005.timeindex.swap", (5, FileKind.TIME_INDEX, FileState.SWAP)),
        ("00000000000000000005.snapshot.deleted", (5, FileKind.PRODUCER_SNAPSHOT, FileState.DELETED)),
        ("00000000000000000007.txnindex", (7, FileKind.TXN_INDEX, FileState.LIVE)),
        ("5.index", (5, FileKind.OFFSET_INDEX, FileState.LIVE)),
        ("-5.log", (-5, FileKind.LOG, FileState.LIVE)),
        ("+5.log", (5, FileKind.LOG, FileState.LIVE)),
        ("9223372036854775807.log", (9223372036854775807, FileKind.LOG, FileState.LIVE)),
        ("09223372036854775807.log", (9223372036854775807, FileKind.LOG, FileState.LIVE)),
        ("00000000000000000000000000000000007.log", (7, FileKind.LOG, FileState.LIVE)),
    ],
)
def test_a_segment_file_is_read_as_by_kafka(name: str, parts: tuple[int, FileKind, FileState]) -> None:
    assert parse_segment_file(name) == parts


@pytest.mark.parametrize(
    "name",
    ["x.log", ".log", "9223372036854775808.log", "09223372036854775808.log", "1_0.log", " 1.log", "1 .log"],
)
def test_a_segment_file_without_an_offset_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError, match="must start with its offset"):
        parse_segment_file(name)


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "00000000000000000005-0000000001.checkpoint",
        "00000000000000000005.logs",
        "log",
        "00000000000000000005.log.swap.bak",
    ],
)
def test_other_files_are_no_segment_files(name: str) -> None:
    assert parse_segment_file(name) is None


@given(st.integers(0, 2**63 - 1), st.sampled_from(FileKind), st.sampled_from(FileState))
def test_segment_files_come_back(offset: int, kind: FileKind, state: FileState) -> None:
    assert parse_segment_file(segment_file_name(offset, kind, state)) == SegmentFile(offset, kind, state)


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_no_file_is_named_after_an_impossible_offset(offset: int) -> None:
    with pytest.raises(InvalidNameError):
        segment_file_name(offset, FileKind.LOG)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("00000000000000000012-0000000003.checkpoint", KRaftSnapshotFile(12, 3)),
        ("00000000000000000012-0000000003.checkpoint.deleted", KRaftSnapshotFile(12, 3, deleted=True)),
    ],
)
def test_a_metadata_snapshot_is_read_and_named(name: str, parts: KRaftSnapshotFile) -> None:
    assert parse_kraft_snapshot_file(name) == parts
    assert parts.name == name
    assert parse_kraft_snapshot_file("bootstrap.checkpoint") is None


@pytest.mark.parametrize("partition", [-1, -7])
def test_a_partition_whose_name_would_be_read_as_another_topics_is_not_created(partition: int) -> None:
    wanted = TopicPartition("t", partition)
    assert parse_partition_directory(str(wanted)).topic_partition == TopicPartition("t-", -partition)

    with pytest.raises(InvalidNameError, match="cannot be negative"):
        check_new_partition(wanted)


def test_a_partition_that_no_name_can_have_is_not_created() -> None:
    check_new_partition(TopicPartition("t", 2**31 - 1))

    with pytest.raises(InvalidNameError, match="at most 2147483647"):
        check_new_partition(TopicPartition("t", 2**31))


def test_a_pair_is_a_partition() -> None:
    found = TopicPartition.of(("orders", 3))

    assert (type(found), str(found)) == (TopicPartition, "orders-3")
    assert TopicPartition.of(found) is found


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Orders", ": did you mean orders?"),
        ("order-1", ": did you mean orders-1?"),
        ("orders-9", ": orders has the partitions 0 to 2."),
        ("one-7", ": one has the partition 3."),
        ("gaps-7", ": gaps has the partitions 0, 2."),
        ("zzz", "."),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_one_that_is(name: str, says: str) -> None:
    there = [*(TopicPartition("orders", number) for number in range(3)), TopicPartition("one", 3)]
    there += [TopicPartition("gaps", 2), TopicPartition("gaps", 0)]

    assert near_name(name, there) == says


def test_a_name_of_a_topic_and_of_a_partition_is_refused() -> None:
    check_one_meaning("orders-1", {"orders"})
    check_one_meaning("orders-1", {"orders-1"})

    with pytest.raises(UsageError, match="also of partition 1 of topic orders"):
        check_one_meaning("orders-1", {"orders", "orders-1"})
