"""What is left of a simulated file and of changes of names when the power goes."""

from __future__ import annotations

from tests.files.powerless import found, made

A, B = "/logs/a", "/logs/b"


def test_unsynced_bytes_are_there_or_not_or_up_to_a_sector() -> None:
    disk = made({A: b"old"})
    disk.append(A, b"x" * 2000)

    # The middle of the write is at byte 1003, the sector in which that is starts at 512.
    assert found(disk) == {((A, b"old" + b"x" * size),) for size in (0, 509, 2000)}


def test_of_two_unsynced_writes_either_may_be_lost() -> None:
    disk = made({A: b"...."})
    disk.write_at(A, b"1", 0)
    disk.write_at(A, b"2", 3)

    assert found(disk) == {((A, data),) for data in (b"....", b"1...", b"...2", b"1..2")}


def test_a_truncation_is_lost_without_a_sync() -> None:
    disk = made({A: b"12345678"})
    disk.truncate(A, 3)

    assert found(disk) == {((A, b"123"),), ((A, b"12345678"),)}


def test_a_name_is_durable_only_when_its_directory_is_synced() -> None:
    disk = made()
    disk.append(A, b"bytes")
    disk.sync(A)

    assert found(disk) == {(), ((A, b"bytes"),)}


def test_a_renamed_file_may_have_lost_its_bytes() -> None:
    disk = made({A: b"old"})
    disk.append(B, b"new")
    disk.rename(B, A)

    assert ((A, b""),) in found(disk)
    assert ((A, b"old"),) in found(disk)
    assert ((A, b"new"),) in found(disk)


def test_a_delete_is_lost_without_a_sync_of_the_directory() -> None:
    disk = made({A: b"old"})
    disk.delete(A)
    assert found(disk) == {(), ((A, b"old"),)}
    disk.sync_directory("/logs")

    assert found(disk) == {()}


def test_files_of_a_renamed_directory_go_with_it() -> None:
    disk = made({"/logs/t-0/log": b"old"})
    disk.append("/logs/t-0/new", b"n")
    disk.sync("/logs/t-0/new")
    disk.rename("/logs/t-0", "/logs/u-0")
    disk.sync_directory("/logs")
    assert found(disk) == {
        (("/logs/u-0/log", b"old"),),
        (("/logs/u-0/log", b"old"), ("/logs/u-0/new", b"n")),
    }
    disk.sync_directory("/logs/u-0")

    assert found(disk) == {(("/logs/u-0/log", b"old"), ("/logs/u-0/new", b"n"))}
