"""What `index` says was rebuilt, and why."""

from __future__ import annotations

import json

from stratalog.operations.index_report import IndexedDirectory, IndexedPartition, IndexReport, RebuiltIndex

INDEX = RebuiltIndex(
    file=f"{0:020d}.index", reasons=("It is wrong.", "It is odd."), data=bytes(16), size_before=8
)
MISSING = RebuiltIndex(
    file=f"{0:020d}.timeindex", reasons=("The file is missing.",), data=b"", size_before=None
)


def report(*partitions: IndexedPartition, **facts: object) -> IndexReport:
    error = facts.pop("error", None)
    directory = IndexedDirectory(directory="/data", partitions=partitions, error=error)  # type: ignore[arg-type]
    return IndexReport(directories=(directory,), **facts)  # type: ignore[arg-type]


def test_each_index_has_a_row_with_its_first_reason() -> None:
    table, _ = report(IndexedPartition(name="a-0", rebuilt=(INDEX, MISSING))).tables()

    assert table.rows == [
        ["a-0", f"{0:020d}.index", "8 B", "16 B", "It is wrong. And 1 more."],
        ["a-0", f"{0:020d}.timeindex", "missing", "0 B", "The file is missing."],
    ]


def test_a_dry_run_says_that_nothing_was_changed() -> None:
    plan = report(IndexedPartition(name="a-0", rebuilt=(INDEX,)), is_plan=True)

    assert "nothing was changed" in plan.tables()[0].title
    assert plan.verdict == "Nothing was changed: the broker can be started."


def test_nothing_wrong_is_said_in_words() -> None:
    assert report(IndexedPartition(name="a-0", segments_count=3)).words() == [
        "Every index is right: nothing to do."
    ]


def test_a_refused_partition_and_a_failed_directory_are_told() -> None:
    refused = IndexedPartition(name="a-0", error="it has damage", needs_recovery=True)

    found = report(refused)
    assert found.words() == ["a-0: it has damage"]
    assert (found.status, found.left_count, found.to_recover) == (3, 1, ["a-0"])
    failed = report(error="the disk is full")
    assert failed.words() == ["/data: failed. the disk is full"]
    assert failed.failed_directories == ["/data"]


def test_the_totals_and_the_document() -> None:
    found = report(IndexedPartition(name="a-0", segments_count=3, rebuilt=(INDEX, MISSING)))

    assert found.totals() == {
        "partitions": 1,
        "segments": 3,
        "indexes_rebuilt": 2,
        "bytes_written": 16,
        "partitions_left": 0,
    }
    document = json.loads(json.dumps(found.to_document()))
    assert document["directories"][0]["partitions"][0]["rebuilt"][1]["bytes_before"] is None
