"""The simulated disk behaves as the real one, until it fails or loses its power."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.buffers import aligned_buffer
from stratalog.errors import DiskError
from stratalog.files.disk import Disk, EntryKind
from stratalog.files.simulated import PowerCut, SimulatedDisk
from tests.files.powerless import found, made

A, B = "/logs/a", "/logs/b"


@pytest.fixture(params=["real", "simulated"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "real":
        return Disk()
    disk = SimulatedDisk()
    disk.make_directories(tmp_path)
    return disk


def test_no_method_of_the_real_disk_is_reached() -> None:
    public = {name for name in vars(Disk) if not name.startswith("_")}

    assert public <= set(vars(SimulatedDisk))


def test_both_disks_do_the_same(both: Disk, tmp_path: Path) -> None:
    log, other = tmp_path / "t-0" / "log", tmp_path / "t-0" / "other"
    assert both.make_directory(log.parent) is True
    assert both.make_directory(log.parent) is False
    both.create(log, 5)
    both.write_at(log, b"xyz", 4)
    assert both.append(log, memoryview(b"end")) == 7
    assert both.append(other, b"new") == 0
    assert both.read_at(log, 100, 0) == b"\0\0\0\0xyzend"
    assert both.read_at(log, 3, 8) == b"nd"
    assert both.read_at(log, 3, 50) == b""
    both.truncate(log, 6)
    both.truncate(log, 8)
    buffer = aligned_buffer(4)
    assert both.read_into(log, buffer, 4) == 4
    assert buffer.tobytes() == b"xy\0\0"
    with both.open_read(log) as file:
        both.rename(other, log)
        assert both.size(file) == 8
        assert both.read_into(file, buffer, 6) == 2
    assert both.read_at(log, 100, 0) == b"new"
    assert not both.exists(other)
    both.replace(other, b"replaced")
    both.set_modified(other, 1_700_000_000_123)
    status = both.status(other)
    assert status is not None
    assert (status.kind, status.size, status.mtime_ms) == (EntryKind.FILE, 8, 1_700_000_000_123)
    listing = both.list_directory(log.parent)
    assert [(entry.name, entry.kind, entry.size) for entry in listing] == [
        ("log", EntryKind.FILE, 3),
        ("other", EntryKind.FILE, 8),
    ]
    assert both.list_sizes(log.parent, "er") == {"log": 0, "other": 8}
    both.rename(log.parent, tmp_path / "u-0")
    assert both.size(tmp_path / "u-0" / "other") == 8
    both.sync(tmp_path / "u-0" / "log")
    both.sync_directory(tmp_path / "u-0")
    assert both.delete(tmp_path / "u-0" / "log") is True
    assert both.delete(tmp_path / "u-0" / "log") is False
    assert both.delete(tmp_path / "u-0" / "other") is True
    assert both.remove_directory(tmp_path / "u-0") is True
    assert both.remove_directory(tmp_path / "u-0") is False
    assert both.list_directory(tmp_path) == []


REFUSALS: list[tuple[int, Callable[[Disk, Path], object]]] = [
    (errno.ENOENT, lambda disk, folder: disk.open_read(folder / "gone")),
    (errno.ENOENT, lambda disk, folder: disk.read_at(folder / "gone", 1, 0)),
    (errno.ENOENT, lambda disk, folder: disk.write_at(folder / "gone", b"x", 0)),
    (errno.ENOENT, lambda disk, folder: disk.truncate(folder / "gone", 0)),
    (errno.ENOENT, lambda disk, folder: disk.rename(folder / "gone", folder / "other")),
    (errno.ENOENT, lambda disk, folder: disk.create(folder / "gone" / "log")),
    (errno.ENOENT, lambda disk, folder: disk.size(folder / "gone")),
    (errno.ENOENT, lambda disk, folder: disk.sync(folder / "gone")),
    (errno.ENOENT, lambda disk, folder: disk.list_directory(folder / "gone")),
    (errno.EEXIST, lambda disk, folder: disk.create(folder / "file")),
    (errno.ENOTDIR, lambda disk, folder: disk.list_directory(folder / "file")),
    (errno.ENOTDIR, lambda disk, folder: disk.sync_directory(folder / "file")),
    (errno.ENOTEMPTY, lambda disk, folder: disk.remove_directory(folder)),
    (errno.EISDIR, lambda disk, folder: disk.append(folder, b"x")),
]


@pytest.mark.parametrize(("number", "call"), REFUSALS)
def test_both_disks_refuse_the_same(
    both: Disk, tmp_path: Path, number: int, call: Callable[[Disk, Path], object]
) -> None:
    both.create(tmp_path / "file")

    with pytest.raises(DiskError) as caught:
        call(both, tmp_path)

    assert caught.value.errno == number


def test_a_step_fails_when_told_to_and_the_next_one_works() -> None:
    disk = made({A: b"old"})
    disk.fail_at(2)
    disk.read_at(A, 1, 0)
    with pytest.raises(DiskError, match="The device is failing") as caught:
        disk.write_at(A, b"new", 0)
    assert caught.value.errno == errno.EIO
    assert disk.contents() == {A: b"old"}
    disk.write_at(A, b"new", 0)

    assert disk.contents() == {A: b"new"}
    assert disk.steps == 3


def test_a_write_without_space_is_half_done() -> None:
    disk = made({A: b"old"})
    disk.fail_at(1, errno.ENOSPC)

    with pytest.raises(DiskError, match="Free some space"):
        disk.append(A, b"12345678")

    assert disk.contents() == {A: b"old1234"}


def test_after_the_power_cut_nothing_works_any_more() -> None:
    disk = made({A: b"old"})
    disk.crash_at(1)
    with pytest.raises(PowerCut):
        disk.append(A, b"new")

    for call in (lambda: disk.read_at(A, 1, 0), lambda: disk.create(A), lambda: disk.delete(A)):
        with pytest.raises(PowerCut):
            call()
    assert found(disk) == {((A, b"old"),), ((A, b"oldnew"),)}


def test_what_is_synced_is_found_again() -> None:
    disk = made()
    disk.append(A, b"bytes")
    disk.sync(A)
    disk.sync_directory("/logs")

    assert found(disk) == {((A, b"bytes"),)}


def test_a_replacement_is_whole_or_has_not_happened_whenever_the_power_goes() -> None:
    old, new = b"old" * 500, b"new" * 700
    counted = made({A: old})
    counted.replace(A, new)
    seen = set()
    for step in range(1, counted.steps + 1):
        disk = made({A: old})
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            disk.replace(A, new)
        seen |= {after.contents()[A] for after in disk.crash()}

    assert counted.steps == 6
    assert seen == {old, new}
    assert found(counted) == {((A, new),)}


def test_each_of_several_replacements_is_whole_or_has_not_happened_whenever_the_power_goes() -> None:
    old, new = b"old" * 500, b"new" * 700
    paths = [A, "/logs/b", "/logs/c"]
    counted = made(dict.fromkeys(paths, old))
    counted.replace_all([(path, new) for path in paths])
    seen = set()
    for step in range(1, counted.steps + 1):
        disk = made(dict.fromkeys(paths, old))
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            disk.replace_all([(path, new) for path in paths])
        seen |= {tuple(after.contents()[path] for path in paths) for after in disk.crash()}

    assert counted.steps == 3 * 5 + 1, "one sync of the directory for all"
    assert {content for contents in seen for content in contents} == {old, new}
    assert {(new, old, old), (new, new, old), (old, new, new), (new, new, new)} <= seen
    assert found(counted) == {tuple((path, new) for path in paths)}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_replacement_is_whole_or_has_not_happened_whichever_step_fails(number: int) -> None:
    for step in range(1, 7):
        disk = made({A: b"old"})
        disk.fail_at(step, number)
        with pytest.raises(DiskError):
            disk.replace(A, b"new")
        assert disk.contents()[A] in (b"old", b"new")
        disk.replace(A, b"newer")  # the leftover file does no harm

        assert found(disk) == {((A, b"newer"),)}


def test_a_simulation_runs_the_same_way_twice() -> None:
    def run() -> list[dict[str, bytes]]:
        disk = made({A: b"old"})
        disk.append(B, b"x" * 3000)
        disk.rename(B, A)
        return [after.contents() for after in disk.crash()]

    assert run() == run()
