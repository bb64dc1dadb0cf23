"""Producers of a log that another process writes: replayed once, and continued."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stratalog import PartitionLog, open_log
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.entries import ExpectedFile, ReadFile
from stratalog.files.entries import Path as FilePath
from stratalog.log.api.view import LogView
from stratalog.records.control import ControlType
from tests.log.model import ORDERS, append_marker, produced

if TYPE_CHECKING:
    from stratalog.files.disk import Target


def committed(view: PartitionLog) -> list[bytes | None]:
    """The values that a reader of committed records gets, which as columns are the same."""
    found = [record.value for record in view.records(isolation="read_committed")]
    assert view.to_arrow(["value"], isolation="read_committed")["value"].to_pylist() == found
    return found


def test_an_abort_is_known_by_its_marker_before_it_is_in_the_index(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    index, hidden = directory / f"{0:020d}.txnindex", tmp_path / "hidden"
    with open_log(directory, create=True) as log:
        log.append_batch(produced(1, 0, b"committed", transactional=True))
        append_marker(log.log, 1, ControlType.COMMIT)
        log.append_batch(produced(1, 1, b"aborted", transactional=True))
        append_marker(log.log, 1, ControlType.ABORT)
        index.rename(hidden)  # the moment between the write of the marker and that of its entry
        with open_log(directory, read_only=True) as view:
            assert committed(view) == [b"committed"]
            hidden.rename(index)
            assert committed(view) == [b"committed"]


class CountingDisk(Disk):
    """Counts the bytes that are read of logs."""

    def __init__(self) -> None:
        super().__init__()
        self.read_size = 0

    def read_into(
        self, source: ReadFile | FilePath, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        filled = super().read_into(source, buffer, position, identity)
        self.read_size += filled
        return filled


def view_of(directory: Path, disk: Disk) -> LogView:
    return LogView(
        disk=disk, clock=system_clock, directory=directory, topic_partition=ORDERS, config=LogConfig()
    )


def test_what_was_found_of_transactions_is_gone_on_with(tmp_path: Path) -> None:
    disk = CountingDisk()
    with open_log(tmp_path / "orders-0", create=True) as log:
        for number in range(200):
            log.log.append_as_leader(produced(1, number, b"x" * 5000, transactional=True), leader_epoch=0)
        view = view_of(tmp_path / "orders-0", disk)
        assert view.last_stable_offset == 0
        whole_size = disk.read_size
        append_marker(log.log, 1, ControlType.COMMIT)
        log.log.append_as_leader(produced(2, 0, b"open", transactional=True), leader_epoch=0)

        disk.read_size = 0
        view.refresh()
        assert view.last_stable_offset == 201
        view.close()

    assert whole_size > 1_000_000
    assert disk.read_size < whole_size / 5


@pytest.mark.parametrize("is_decided", [True, False])
def test_what_was_found_of_transactions_that_were_cut_off_is_forgotten(
    tmp_path: Path, is_decided: bool
) -> None:
    """The log is as long as before, or longer, but its former last batch is another one now."""
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"plain")
        log.log.append_as_leader(produced(1, 0, b"a", transactional=True), leader_epoch=0)
        log.append(b"plain")
        view = view_of(tmp_path / "orders-0", Disk())
        assert view.last_stable_offset == 1
        log.truncate_to(1)
        log.append_many([b"other", b"other", b"other"])
        if not is_decided:
            log.log.append_as_leader(produced(2, 0, b"b", transactional=True), leader_epoch=0)

        view.refresh()
        assert view.last_stable_offset == 4
        view.close()


def test_an_entry_that_comes_after_its_marker_is_seen_although_the_log_has_not_grown(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    index, hidden = directory / f"{0:020d}.txnindex", tmp_path / "hidden"
    with open_log(directory, create=True) as log:
        log.append_batch(produced(1, 0, b"aborted", transactional=True))
        append_marker(log.log, 1, ControlType.ABORT)
        index.rename(hidden)
        with open_log(directory, read_only=True) as view:
            assert committed(view) == []
            hidden.rename(index)
            # Markers before a snapshot are not read any more: from here on only the index has the abort.
            log.log.roll()
            log.append(b"plain")
            assert committed(view) == [b"plain"]
