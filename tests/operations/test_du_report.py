"""What `du` shows: the largest first, with shares, and when it goes."""

from __future__ import annotations

import json

from stratalog.log.cleaning.tally import KeyCount
from stratalog.operations.du_keys import KeyUsage
from stratalog.operations.du_report import DiskUse, DuReport, UsedDirectory
from stratalog.operations.freeing import NextFreed
from stratalog.operations.report import Status

TIME = 1_700_000_000_000
DIRECTORY = UsedDirectory(directory="/data", disk_size=4000, free_size=10_000, growth=500)


def use(name: str, size: int, **facts: object) -> DiskUse:
    given: dict[str, object] = {
        "name": name,
        "topic": name,
        "directory": "/data",
        "disk_size": size,
        "size": size + 1,
        "log_size": size - 1,
        "waiting_size": 0,
        "files_count": 3,
        "partitions_count": 1,
    }
    return DiskUse(**(given | facts))  # type: ignore[arg-type]


def report(*uses: DiskUse, **facts: object) -> DuReport:
    given: dict[str, object] = {"directories": (DIRECTORY,), "uses": uses, "by": "topic", "now": TIME}
    return DuReport(**(given | facts))  # type: ignore[arg-type]


def count(key: bytes, size: int) -> KeyCount:
    return KeyCount(
        key=key,
        key_size=len(key),
        versions=2,
        bytes=size,
        freed=0,
        freed_bound=0,
        draws=0,
        missed_versions=0,
        missed_bytes=0,
    )


def test_a_row_says_what_goes_and_when() -> None:
    by_time = use("a", 3000, growth=200, freed=NextFreed(100, 1000, next_ms=TIME))
    by_size = use("b", 900, freed=NextFreed(0, 50, next_growth=70))
    compacted = use("c", 100, is_compacted=True, is_assumed=True)

    directories, rows = report(by_time, by_size, compacted).tables()

    assert directories.rows == [["/data", "4.0 kB", "10.0 kB", "500 B", "20 days"]]
    assert rows.rows == [
        ["a", "3.0 kB", "75.0 %", "3.0 kB", "200 B", "100 B", "1.0 kB", "2023-11-14 22:13:20"],
        ["b", "900 B", "22.5 %", "899 B", "-", "-", "50 B", "when it has grown by 70 B"],
        ["c", "100 B", "2.5 %", "99 B", "-", "-", "-", "(by compaction: see `estimate`)"],
    ]


def test_only_the_largest_rows_are_shown_and_the_rest_is_one_row() -> None:
    _, rows = report(use("a", 600), use("b", 300), use("c", 100), top=1).tables()

    assert [row[:3] for row in rows.rows] == [["a", "600 B", "60.0 %"], ["2 more", "400 B", "40.0 %"]]


def test_keys_are_a_table_for_each_topic() -> None:
    counts = (count(b"eu:", 50), count(b"", 10))
    keys = KeyUsage(topic="a", counts=counts, rest_size=30, without_key_size=10, without_key_count=7)

    *_, table = report(use("a", 100), keys=(keys,)).tables()

    assert table.title == "Key prefixes of a"
    assert table.rows == [
        ["eu:", "2", "50 B", "50.0 %"],
        ["(empty key)", "2", "10 B", "10.0 %"],
        ["(other keys)", "", "30 B", "30.0 %"],
        ["(no key)", "7", "10 B", "10.0 %"],
    ]


def test_the_verdict_has_the_total_what_goes_and_the_growth() -> None:
    found = report(use("a", 3000, growth=200, freed=NextFreed(100, 1000, next_ms=TIME)), use("b", 1000))

    assert found.verdict == (
        "4.0 kB on disk, 10.0 kB free. Retention frees 100 B now, then 1.0 kB at 2023-11-14 22:13:20. "
        "Growth: 200 B a day."
    )


def test_the_room_of_one_file_system_counts_once() -> None:
    other = UsedDirectory(directory="/b", disk_size=1, free_size=10_000, growth=None)
    apart = UsedDirectory(directory="/c", disk_size=1, free_size=10_000, growth=None, device=1)

    assert "10.0 kB free" in report(directories=(DIRECTORY, other)).verdict
    assert "20.0 kB free" in report(directories=(DIRECTORY, apart)).verdict


def test_what_could_not_be_read_fails_and_is_told() -> None:
    keys = KeyUsage(topic="a", counts=(), rest_size=0, without_key_size=0, errors=(("/data/a-0", "torn"),))
    found = report(use("a", 1), errors=(("/data/b-0", "denied"),), keys=(keys,))

    assert found.status is Status.FAILED
    assert found.words() == ["/data/b-0: denied", "/data/a-0: torn"]
    assert report(use("a", 1)).status is Status.FINE


def test_a_disk_that_lasts_for_ages_has_no_date() -> None:
    slow = UsedDirectory(directory="/data", disk_size=1, free_size=10**12, growth=1)
    still = UsedDirectory(directory="/data", disk_size=1, free_size=10**12, growth=None)

    assert report(directories=(slow, still)).tables()[0].rows[0][-1] == "over 10 years"
    assert report(directories=(slow, still)).tables()[0].rows[1][-1] == "-"


def test_the_document_has_every_row() -> None:
    found = report(use("a", 600, freed=NextFreed(1, 2, next_ms=3)), use("b", 300), top=1)

    document = json.loads(json.dumps(found.to_document()))

    assert [row["name"] for row in document["uses"]] == ["a", "b"]
    assert document["uses"][0]["freed_next_ms"] == 3
    assert document["directories"][0]["days_left"] == 20
