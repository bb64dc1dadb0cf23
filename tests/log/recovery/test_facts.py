"""Findings in words: which apply, and the numbers and commands in them."""

from __future__ import annotations

import pytest

from stratalog.files.entries import FileId
from stratalog.log.epochs import EpochEntry
from stratalog.log.recovery.facts import (
    FileFact,
    FindingKind,
    missing_end,
    missing_logs,
    missing_snapshot,
    stuck_readers,
    unknown_start,
)
from stratalog.log.recovery.index_claims import IndexClaim
from tests.log.model import ORDERS

GAP = 40


def test_a_file_is_the_same_under_another_name_and_not_once_it_has_changed() -> None:
    file = FileFact("a", 5, FileId((1, 77)), 1000)

    assert file.is_same_but_for_name(file._replace(name="b"))
    assert not file.is_same_but_for_name(file._replace(mtime_ms=1001))
    assert file.words == "a file of 5 bytes, inode 77, changed at 1000 ms"


def test_a_missing_snapshot_has_the_name_that_a_clean_shutdown_gives_it() -> None:
    found = missing_snapshot(13)

    assert (found.kind, found.file) == (FindingKind.MISSING_SNAPSHOT, "00000000000000000013.snapshot")


@pytest.mark.parametrize("open_transactions", [{}, {1: GAP}, {1: GAP + 5, 2: GAP + 1}])
def test_a_transaction_that_began_at_a_gap_or_after_it_holds_no_reader_up(
    open_transactions: dict[int, int],
) -> None:
    assert stuck_readers(ORDERS, open_transactions, GAP) == []


def test_the_oldest_transaction_before_a_gap_is_named_with_the_command_that_ends_it() -> None:
    (found,) = stuck_readers(ORDERS, {7: 39, 8: 31, 9: 55}, GAP)

    assert found.kind is FindingKind.STUCK_READERS
    assert "producer 8 that began at offset 31" in found.words
    assert "last stable offset stays at 31" in found.consequence
    assert "abort --topic orders --partition 0 --start-offset 31" in found.consequence


@pytest.mark.parametrize("first", [0, 20])
def test_epochs_from_the_first_segment_on_prove_that_nothing_was_deleted(first: int) -> None:
    assert unknown_start("The file is lost.", 20, [EpochEntry(3, first), EpochEntry(4, 50)]) == []


def test_the_first_epoch_bounds_a_start_that_is_not_known() -> None:
    (found,) = unknown_start("The file is lost.", 20, [EpochEntry(3, 33)])

    assert found.kind is FindingKind.UNKNOWN_START
    assert found.words.startswith("The file is lost. The log now starts at offset 20")
    assert "begin at offset 33" in found.words
    assert "before offset 33 again" in found.consequence


def test_without_epochs_nothing_bounds_a_start_that_is_not_known() -> None:
    (found,) = unknown_start("The file is lost.", 20, [])

    assert "anywhere between that offset and its high watermark" in found.words


def test_a_log_that_ends_before_its_index_says_which_records_are_missing() -> None:
    found = missing_end("0.log", IndexClaim(99, 92, is_cut=False))

    assert found.kind is FindingKind.MISSING_RECORDS
    assert found.words == "Its index shows that it had records up to offset 99; it ends at offset 92."
    assert "truncated" in found.consequence


def test_each_missing_log_ends_where_the_next_segment_begins_even_if_that_is_missing_too() -> None:
    found = missing_logs([2, 4, 9], [0, 6], 0)

    assert [finding.words.rpartition("records ")[2] for finding in found] == [
        "of the offsets 2 to 3.",
        "of the offsets 4 to 5.",
        "from offset 9 on.",
    ]
    assert [finding.file[-5:] for finding in missing_logs([2, 4], [6], 4)] == ["4.log"]
