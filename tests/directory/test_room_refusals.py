"""Full disks. The numbers come from a broker that was started on file systems with a few free blocks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from stratalog.directory.owners import ROOT
from stratalog.directory.refusal import RefusalKind, StartupRefusal, is_start_refused
from stratalog.directory.room_refusals import of_room
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.files.disk import Disk
from stratalog.files.entries import FileStatus
from stratalog.files.entries import Path as AnyPath
from stratalog.files.simulated import SimulatedDisk
from stratalog.operations.doctor import Checkup
from stratalog.operations.recover import RecoverOptions, recover

PARTITIONS = 21  # of the directories that the broker was started with


class Full(Disk):
    """This machine's disk, with so many free bytes for users other than root on each device."""

    def __init__(self, free: Mapping[str, int] | int, *, block: int = 4096, owner: int = 1000) -> None:
        super().__init__()
        self._free = free
        self._block = block
        self._owner = owner

    def available_size(self, path: AnyPath) -> int:
        return self._free if isinstance(self._free, int) else self._free[Path(path).name]

    def free_size(self, _path: AnyPath) -> int:
        return 1 << 40  # root still has room

    def block_size(self, _path: AnyPath) -> int:
        return self._block

    def status(self, path: AnyPath) -> FileStatus | None:
        found = super().status(path)
        if found is None:
            return None
        found = found._replace(user=self._owner)
        return (
            found
            if isinstance(self._free, int)
            else found._replace(device=[*self._free].index(Path(path).name))
        )


@pytest.fixture
def both(tmp_path: Path) -> list[str]:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return [str(tmp_path / name) for name in ("one", "two")]


def found_in(disk: Disk, both: list[str]) -> list[StartupRefusal]:
    return [*of_room(disk, both, metadata_in=both[:1], partitions_count=PARTITIONS)]


@pytest.mark.parametrize(
    ("block", "free", "is_refused"),
    [
        (1024, 0, True),  # InternalError: a fault occurred in a recent unsafe memory access operation
        (1024, 8 << 10, True),  # No space left on device, in the thread of the metadata
        (1024, 16 << 10, True),
        (1024, 24 << 10, False),
        (1024, 40 << 10, False),
        (4096, 0, True),
        (4096, 36 << 10, False),
        (4096, 41_000, False),
    ],
)
def test_a_broker_was_said_to_start_on_a_full_disk(
    both: list[str], block: int, free: int, is_refused: bool
) -> None:
    found = found_in(Full(free, block=block), both)

    assert [each.directory for each in found] == both[:1] * is_refused
    assert is_start_refused(found, both, both[0]) is is_refused


def test_what_is_missing_is_told(both: list[str]) -> None:
    (found,) = found_in(Full(4096), both)

    assert (found.kind, found.name, found.path) == (RefusalKind.FULL, "", both[0])
    assert found.reason == (
        "Its disk is full: 4096 bytes are free for users other than root, and a broker needs 36864 there to "
        "start."
    )
    assert found.remedy.startswith("Free some space on it, at least 32768 bytes.")
    assert found.consequence == "A broker that cannot write there ends while it starts, or soon after."


def test_a_full_disk_without_the_metadata_only_goes_offline(both: list[str]) -> None:
    found = found_in(Full({"one": 1 << 20, "two": 0}), both)

    assert [(each.directory, each.takes_offline) for each in found] == [(both[1], True)]
    assert not is_start_refused(found, both, both[0])


def test_a_broker_of_root_may_use_the_blocks_that_are_reserved_for_root(both: list[str]) -> None:
    assert found_in(Full(0), both)
    assert not found_in(Full(0, owner=ROOT), both)


def test_many_partitions_need_more_room(both: list[str]) -> None:
    disk = Full(100 << 10)

    assert not [*of_room(disk, both, metadata_in=both[:1], partitions_count=PARTITIONS)]
    assert [*of_room(disk, both, metadata_in=both[:1], partitions_count=1000)]


def test_a_simulated_disk_can_be_full() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    assert not [*of_room(disk, ["/d"], metadata_in=["/d"], partitions_count=1)]

    disk.room = 4096

    assert [each.directory for each in of_room(disk, ["/d"], metadata_in=["/d"], partitions_count=1)] == [
        "/d"
    ]


def test_a_directory_that_is_missing_or_read_only_is_reported_elsewhere(both: list[str]) -> None:
    class ReadOnly(Full):
        def is_read_only(self, _path: AnyPath) -> bool:
            return True

    assert not found_in(ReadOnly(0), both)
    assert not found_in(Full(0), [f"{path}/missing" for path in both])


@pytest.mark.parametrize(("freed", "is_refused"), [(64 << 10, False), (4096, True), (-4096, True)])
def test_what_a_planned_recovery_frees_counts(both: list[str], freed: int, is_refused: bool) -> None:
    sizes = dict.fromkeys(both, freed)  # the same for both: they are on one device

    found = [*of_room(Full(0), both, metadata_in=both[:1], partitions_count=9, freed_sizes=sizes)]

    assert bool(found) == is_refused
    assert all(refusal.reason.startswith(f"Its disk is full: {max(0, freed)} bytes") for refusal in found)


def test_doctor_and_recover_say_the_same_about_a_full_disk(clean: Path) -> None:
    disk = Full(4096)

    checked = Checkup(directories=[str(clean)], disk=disk).run()
    recovered = recover([str(clean)], RecoverOptions(), disk=disk)

    assert (checked.status, recovered.status) == (3, 3)
    assert checked.refusals == recovered.refusals == startup_refusals(disk, [str(clean)])
    assert checked.verdict == f"The broker will not start: it has no room on the disk of {clean}."
    assert recovered.verdict == (
        f"The broker must not be started yet: it has no room on the disk of {clean}; fix that, and run "
        "`stratalog recover` again."
    )


@pytest.mark.parametrize("free", [64 << 10, 1 << 20])
def test_a_small_disk_with_room_is_no_reason(clean: Path, free: int) -> None:
    assert startup_refusals(Full(free), [str(clean)]) == ()
