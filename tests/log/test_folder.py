"""The directory of a log: when its names are synced, what becomes of them, and what a rename changes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stratalog.errors import StratalogError
from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from stratalog.log.folder import LogFolder
from tests.log.model import DIRECTORY, Machine, batch, produced, read_all
from tests.log.watched import WatchedDisk, watched

LOG, NEXT = "00000000000000000000.log", "00000000000000000007.log"
MARKED = "/logs/orders-0.0123456789abcdef0123456789abcdef-delete"


def folder_of() -> tuple[WatchedDisk, LogFolder]:
    disk, machine = watched()
    folder = machine.open()._parts.folder
    folder.sync_names(())
    disk.done.clear()
    return disk, folder


def test_names_that_are_on_the_device_are_not_synced_again() -> None:
    disk, folder = folder_of()

    folder.sync_names(())

    assert disk.done == []


def test_a_new_segment_is_synced_with_its_directory_once() -> None:
    disk, folder = folder_of()
    segment = folder.create_segment(7)

    for _ in range(2):
        folder.sync_names([segment])

    assert disk.done == [f"create {NEXT}", "sync orders-0/"]


def test_what_was_renamed_is_synced_with_the_next_names() -> None:
    disk, folder = folder_of()
    segment = folder.create_segment(7)

    folder.delete([segment], "a test")
    folder.sync_names(())

    assert disk.done == [f"create {NEXT}", f"rename {NEXT} to {NEXT}.deleted", "sync orders-0/"]


def test_a_change_that_may_have_been_interrupted_counts_as_one() -> None:
    disk, folder = folder_of()

    folder.note_change()
    folder.sync_names(())

    assert disk.done == ["sync orders-0/"]


@pytest.mark.parametrize("is_of_the_segment", [False, True])
def test_a_name_that_is_changed_during_a_sync_is_synced_by_the_next_one(
    is_of_the_segment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, folder = folder_of()
    segment = folder.create_segment(7)
    sync = disk.sync_directory

    def changed_meanwhile(path: DiskPath) -> None:
        sync(path)
        monkeypatch.undo()
        if is_of_the_segment:
            segment._created_count += 1
        else:
            folder.note_change()

    monkeypatch.setattr(disk, "sync_directory", changed_meanwhile)

    for _ in range(3):
        folder.sync_names([segment])

    assert disk.done == [f"create {NEXT}", "sync orders-0/", "sync orders-0/"]


def test_files_are_deleted_after_the_delay() -> None:
    disk, machine = watched(file_delete_delay_ms=1000)
    log = machine.open()
    folder = log._parts.folder
    folder.delete([folder.create_segment(7)], "a test")

    machine.clock.sleep(999)
    machine.scheduler.run_due()
    before = disk.exists(f"{DIRECTORY}/{NEXT}.deleted")
    machine.clock.sleep(1)
    machine.scheduler.run_due()

    assert (before, disk.exists(f"{DIRECTORY}/{NEXT}.deleted")) == (True, False)


def test_a_renamed_directory_is_on_the_device_under_its_new_name() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    parts = log._parts
    disk.done.clear()

    parts.folder.rename("/logs/orders-0.1-delete", parts.segments, parts.epochs)

    assert disk.done[:2] == ["rename orders-0 to orders-0.1-delete", "sync logs/"]
    assert parts.folder.path == parts.segments.active.directory == "/logs/orders-0.1-delete"
    assert parts.segments.active.reader.read_bytes(0, 10) == batch(b"a")[:10]


def small(disk: Disk | None = None, directory: str = "/logs/orders-0") -> Machine:
    size = 3 * len(produced(1, 0, b"0"))
    return Machine(disk, directory, internal_segment_bytes=size, index_interval_bytes=1)


def test_records_are_read_and_appended_under_the_new_name() -> None:
    machine = small()
    log = machine.open()
    for number in range(7):
        log.append_as_leader(produced(1, number, b"%d" % number), leader_epoch=0)
    before = read_all(log)

    log.rename_directory(MARKED)

    assert log.directory == MARKED
    assert read_all(log) == before
    log.append_as_leader(produced(1, 7, b"7"), leader_epoch=1)
    assert [record.value for record in read_all(log)][-1] == b"7"
    assert machine.disk.list_directory("/logs")[0].name == MARKED.rpartition("/")[2]


def test_everything_that_is_written_afterwards_goes_to_the_new_directory() -> None:
    machine = small()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"0"), leader_epoch=0)

    log.rename_directory(MARKED)
    log.append_as_leader(produced(1, 1, b"1"), leader_epoch=2)
    log.close()

    assert not machine.disk.exists("/logs/orders-0")
    machine.directory = MARKED
    reopened = machine.open()
    assert reopened.log_end_offset == 2
    assert [entry.epoch for entry in reopened.epochs.entries] == [0, 2]
    assert machine.files(".snapshot") == [f"{2:020d}.snapshot"]


def test_a_log_that_gets_the_name_it_has_goes_on() -> None:
    machine = small()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"0"), leader_epoch=0)

    log.rename_directory(machine.directory)
    log.append_as_leader(produced(1, 1, b"1"), leader_epoch=0)

    assert [record.value for record in read_all(log)] == [b"0", b"1"]
    assert [entry.name for entry in machine.disk.list_directory("/logs")] == ["orders-0"]


def test_flushes_while_the_directory_gets_another_name_meet_no_missing_file(tmp_path: Path) -> None:
    directory = f"{tmp_path}/orders-0"
    disk = Disk()
    disk.make_directory(directory)
    log = small(disk, directory).open()
    stop = threading.Event()
    failures: list[str] = []

    def flush_on() -> None:
        while not stop.is_set():
            try:
                log.flush(force=True)
            except StratalogError as error:
                failures.append(str(error))
                return

    flusher = threading.Thread(target=flush_on)
    flusher.start()
    for number in range(60):
        log.append_as_leader(batch(b"%d" % number), leader_epoch=0)
        log.rename_directory(f"{tmp_path}/orders-0.{number:032x}-delete")
    stop.set()
    flusher.join()

    assert failures == []
    assert log.log_end_offset == 60


def test_a_segment_that_somebody_holds_follows_its_directory() -> None:
    machine = small()
    log = machine.open()
    for number in range(7):
        log.append_as_leader(produced(1, number, b"%d" % number), leader_epoch=0)
    segment = log.segments.first

    log.rename_directory(MARKED)

    assert segment.directory == MARKED
    assert segment.reader.read_bytes(0, 100)


def test_what_waits_for_its_deletion_follows_its_directory() -> None:
    machine = small()
    log = machine.open()
    for number in range(7):
        log.append_as_leader(produced(1, number, b"%d" % number), leader_epoch=0)
    log.delete_records(6)
    first = log.segments.first
    log.delete_old_segments()

    log.rename_directory(MARKED)
    assert first.reader.read_bytes(0, 100)
    machine.clock.sleep(machine.config.file_delete_delay_ms)
    machine.scheduler.run_due()

    machine.directory = MARKED
    assert [name for name in machine.files(".deleted") if "snapshot" not in name] == []


def test_readers_do_not_notice(tmp_path: Path) -> None:
    directory = f"{tmp_path}/orders-0"
    disk = Disk()
    disk.make_directory(directory)
    machine = small(disk, directory)
    log = machine.open()
    for number in range(30):
        log.append_as_leader(batch(b"%d" % number), leader_epoch=0)
    expected = [record.value for record in read_all(log)]
    stop = threading.Event()
    failures: list[str] = []

    def read_on() -> None:
        while not stop.is_set():
            try:
                if [record.value for record in read_all(log)] != expected:
                    failures.append("other records")
            except StratalogError as error:
                failures.append(str(error))

    readers = [threading.Thread(target=read_on) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(20):
        log.rename_directory(f"{tmp_path}/orders-0.{number:032x}-delete")
    stop.set()
    for reader in readers:
        reader.join()

    assert failures == []
