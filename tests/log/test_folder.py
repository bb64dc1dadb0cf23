"""The directory of a log: when its names are synced, and what becomes of them."""

from __future__ import annotations

from stratalog.log.folder import LogFolder
from tests.log.model import DIRECTORY, batch
from tests.log.watched import WatchedDisk, watched

LOG, NEXT = "00000000000000000000.log", "00000000000000000007.log"


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
