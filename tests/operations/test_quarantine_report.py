"""What `quarantine` shows."""

from __future__ import annotations

import json

from stratalog.log.recovery.manifest import KeptPart, ManifestEntry
from stratalog.operations.quarantine_report import Handled, KeptBatch, KeptRange, QuarantineReport, ShownRange

ENTRY = ManifestEntry(
    directory="/data",
    partition="orders-0",
    file=f"{42:020d}.log",
    position=8192,
    size=1500,
    reason="the last batch is cut off",
    is_whole=False,
    parts=(KeptPart(file="stratalog-quarantine-x", at=0, size=500), KeptPart(file=None, at=0, size=1000)),
    sha256="ab",
    inode=0,
    time_ms=1_700_000_000_000,
)
KEPT = KeptRange(id="0123456789", place="/data", entry=ENTRY)
BATCH = KeptBatch(
    position=100,
    size=200,
    base_offset=7,
    last_offset=9,
    records_count=3,
    codec="lz4",
    max_timestamp=-1,
    is_valid=False,
)


def report(outcome: Handled, *ranges: KeptRange, **facts: object) -> QuarantineReport:
    return QuarantineReport(ranges=ranges, outcome=outcome, **facts)  # type: ignore[arg-type]


def test_a_row_says_where_the_bytes_were_and_why_they_are_here() -> None:
    (table,) = report(Handled.KEPT, KEPT).tables()

    assert table.rows == [
        [
            "0123456789",
            "orders-0",
            f"{42:020d}.log",
            "8192",
            "1.5 kB",
            "2023-11-14 22:13:20",
            "the last batch is cut off",
            "/data",
        ]
    ]


def test_the_verdict_says_what_was_done() -> None:
    assert report(Handled.KEPT).verdict == "Nothing is in quarantine."
    assert report(Handled.KEPT, KEPT).verdict == "1 range in quarantine, 1.5 kB."
    assert report(Handled.PURGED).verdict == "Nothing to do."
    assert report(Handled.PURGED, KEPT, KEPT).verdict == "2 ranges were deleted, 3.0 kB."
    assert report(Handled.PURGED, KEPT, is_plan=True).verdict == "1 range would be deleted, 1.5 kB."
    assert report(Handled.RESTORED, KEPT, target="/f").verdict == (
        "1.5 kB were written to /f. They also stay in quarantine."
    )


def test_zeros_take_no_room_on_the_disk() -> None:
    assert report(Handled.KEPT, KEPT).totals() == {"ranges": 1, "bytes": 1500, "bytes_on_disk": 500}


def test_a_dry_run_is_said_to_be_one() -> None:
    (table,) = report(Handled.PURGED, KEPT, is_plan=True).tables()

    assert "nothing was changed" in table.title
    assert report(Handled.PURGED, KEPT, is_plan=True).to_document()["dry_run"] is True


def test_batches_are_at_their_bytes_of_the_file() -> None:
    shown = ShownRange(kept=KEPT, batches=(BATCH,), batches_count=3, hidden_size=44, is_log=True)

    _, table = shown.tables()
    assert table.rows == [["8292", "200 B", "7", "9", "3", "lz4", "-", "wrong"]]
    assert shown.verdict == "3 whole batches in 1.5 kB, and 44 bytes that are not a batch."
    assert shown.words() == ["2 more batches: give --top 0 to see them all."]
    assert ShownRange(kept=KEPT).verdict == f"1.5 kB of {42:020d}.log, which has no records."


def test_the_document_names_the_files_that_keep_the_bytes() -> None:
    document = json.loads(json.dumps(ShownRange(kept=KEPT, batches=(BATCH,)).to_document()))

    assert document["kept_files"] == ["stratalog-quarantine-x"]
    assert document["batches"][0]["base_offset"] == 7
