"""What `ls` shows of topics, partitions and segments."""

from __future__ import annotations

import json

from stratalog.files.names import DirectoryState
from stratalog.operations.ls_report import ListedDirectory, ListedPartition, LsReport, Policy, ShownSegment
from stratalog.operations.report import Status

SEGMENT = ShownSegment(
    base_offset=10,
    end_offset=30,
    size=1500,
    first_ms=1_700_000_000_000,
    last_ms=-1,
    codec="zstd",
    leader_epoch=4,
    index_entries=2,
    time_index_entries=1,
)
DIRECTORY = ListedDirectory(directory="/data", partitions_count=2, is_clean=False, is_in_use=False)


def partition(number: int, **facts: object) -> ListedPartition:
    given: dict[str, object] = {
        "name": f"orders-{number}",
        "topic": "orders",
        "partition": number,
        "directory": "/data",
        "state": DirectoryState.LIVE,
        "segments_count": 2,
        "size": 1500,
        "start_offset": 10 * number,
        "end_offset": 30 + number,
        "first_ms": 1_700_000_000_000 + number,
        "last_ms": 1_700_000_900_000 - number,
        "codec": ["none", "zstd"][number % 2],
        "leader_epoch": number,
    }
    return ListedPartition(**(given | facts))  # type: ignore[arg-type]


def report(
    *partitions: ListedPartition, names: tuple[str, ...] = (), notes: tuple[str, ...] = ()
) -> LsReport:
    return LsReport(
        directories=(DIRECTORY,),
        partitions=partitions,
        names=names,
        policies={"orders": Policy(("compact", "delete"), is_known=True)},
        notes=notes,
    )


def test_a_topic_shows_the_lowest_and_the_highest_of_its_partitions() -> None:
    directories, topics = report(partition(1), partition(0)).tables()

    assert directories.rows == [["/data", "2", "no", "no"]]
    assert topics.rows == [
        [
            "orders",
            "2",
            "4",
            "3.0 kB",
            "0",
            "31",
            "2023-11-14 22:13:20",
            "2023-11-14 22:28:20",
            "none,zstd",
            "compact,delete",
            "1",
        ]
    ]


def test_a_topic_by_name_shows_its_partitions_in_their_order() -> None:
    (table,) = report(partition(10), partition(9), names=("orders",)).tables()

    assert table.title == "Partitions in /data"
    assert [row[0] for row in table.rows] == ["orders-9", "orders-10"]


def test_partitions_of_two_directories_show_which() -> None:
    (table,) = report(partition(0), partition(1, directory="/other"), names=("orders",)).tables()

    assert [row[-1] for row in table.rows] == ["/data", "/other"]


def test_a_partition_by_name_shows_its_segments() -> None:
    partitions, segments = report(partition(0, segments=(SEGMENT,)), names=("orders-0",)).tables()

    assert not partitions.rows
    assert segments.title == "Segments of orders-0 in /data"
    assert segments.rows == [["10", "30", "1.5 kB", "2023-11-14 22:13:20", "-", "zstd", "4", "2", "1"]]


def test_a_partition_that_cannot_be_read_fails_the_listing_but_not_its_topic() -> None:
    found = report(partition(0), partition(1, error="it is gone", segments_count=0, size=0))

    assert found.status is Status.FAILED
    assert found.words() == ["orders-1: it is gone"]
    assert found.totals()["partitions_unreadable"] == 1
    (topic,) = found.topics()
    assert (topic.start_offset, topic.end_offset) == (0, 30)


def test_other_folders_are_named_in_words_and_notes_follow() -> None:
    waiting = partition(3, name="orders-3.0a-delete", state=DirectoryState.DELETE)

    found = report(partition(0), waiting, notes=("A note.",))

    assert found.words() == ["Waiting for deletion: orders-3.0a-delete.", "A note."]
    assert found.totals()["partitions"] == 1


def test_the_verdict_counts_and_says_what_was_not_shut_down_cleanly() -> None:
    assert report(partition(0)).verdict == (
        "1 topic, 1 partition, 2 segments, 1.5 kB. Not shut down cleanly: /data."
    )


def test_the_document_has_topics_with_their_partitions_and_segments() -> None:
    document = json.loads(json.dumps(report(partition(0, segments=(SEGMENT,))).to_document()))

    (topic,) = document["topics"]
    assert (topic["topic"], topic["cleanup_policy"], topic["codecs"]) == (
        "orders",
        ["compact", "delete"],
        ["none"],
    )
    assert topic["partitions"][0]["segments"][0]["last_timestamp"] == -1
    assert document["directories"][0]["is_clean"] is False


def test_an_unknown_policy_is_in_brackets() -> None:
    assert str(Policy(("delete",), is_known=False)) == "(delete)"
