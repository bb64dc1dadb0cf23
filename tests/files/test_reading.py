"""The reading half of the door to the disk: it has nothing that changes a file."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from stratalog.buffers import aligned_buffer
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.engine.measuring import ReadingDisk
from stratalog.errors import DiskError
from stratalog.files import reading
from stratalog.files.disk import Disk, changing, read_by_seeking
from stratalog.files.reading import DiskReader
from stratalog.files.simulated import SimulatedDisk
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader

CHANGES = {"append", "create", "delete", "make_directory", "remove_directory", "rename", "replace"}


CHANGES |= {"replace_all", "set_modified", "sync", "sync_all", "sync_directory", "together", "truncate"}


CHANGES |= {"temporary_file", "write_at"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [DiskReader, ReadingDisk])
def test_the_reading_half_has_nothing_that_changes_a_file(kind: type) -> None:
    assert not public(kind) & CHANGES


def test_a_disk_is_the_reading_half_and_what_changes() -> None:
    assert public(Disk) - public(DiskReader) == CHANGES
    assert issubclass(SimulatedDisk, Disk)


def test_a_reader_reads_what_a_disk_wrote(tmp_path: Path) -> None:
    Disk().append(tmp_path / "file", b"0123456789")
    reader = DiskReader()

    assert reader.read_at(tmp_path / "file", 3, 4) == b"456"
    assert [entry.name for entry in reader.list_directory(tmp_path)] == ["file"]
    assert reader.read_file(tmp_path / "file") == b"0123456789"


def test_a_segment_opened_for_reading_cannot_be_changed(tmp_path: Path) -> None:
    LogSegment.create(Disk(), tmp_path, 0, LogConfig(), system_clock)
    segment = SegmentReader(DiskReader(), tmp_path, 0, LogConfig())

    with pytest.raises(TypeError, match="opened for reading"):
        segment.offset_index.create()
    assert not hasattr(segment, "append")
    assert not hasattr(segment, "delete")
    assert (tmp_path / "00000000000000000000.log").exists()


def test_the_changing_half_is_asked_of_a_whole_disk_only() -> None:
    disk = Disk()

    assert changing(disk) is disk
    with pytest.raises(TypeError):
        changing(DiskReader())


disk = Disk()
BYTES = bytes(range(256)) * 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(BYTES)
    return path


@pytest.mark.parametrize(
    ("position", "size"), [(0, 10), (5, 4096), (0, len(BYTES)), (len(BYTES) - 3, 3), (7, 0)]
)
def test_the_buffer_is_filled_from_the_position(file: Path, position: int, size: int) -> None:
    buffer = aligned_buffer(size)

    assert disk.read_into(file, buffer, position) == size
    assert buffer.tobytes() == BYTES[position : position + size]


def test_fewer_bytes_than_asked_for_are_the_end_of_the_file(file: Path) -> None:
    buffer = aligned_buffer(100)

    assert disk.read_into(file, buffer, len(BYTES) - 30) == 30
    assert disk.read_into(file, buffer, len(BYTES)) == 0
    assert disk.read_into(file, buffer, len(BYTES) + 1000) == 0


def test_threads_share_an_open_file(file: Path) -> None:
    wrong: list[int] = []

    with disk.open_read(file) as source:

        def work(position: int) -> None:
            buffer = aligned_buffer(50)
            for _ in range(300):
                disk.read_into(source, buffer, position)
                if buffer.tobytes() != BYTES[position : position + 50]:
                    wrong.append(position)

        threads = [threading.Thread(target=work, args=(n * 37,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert wrong == []


def test_a_plain_memoryview_serves_as_a_buffer(file: Path) -> None:
    target = bytearray(20)

    assert disk.read_into(file, memoryview(target)[5:15], 3) == 10
    assert target == bytes(5) + BYTES[3:13] + bytes(5)


def test_reading_by_seeking_gives_the_same(file: Path) -> None:
    view = memoryview(bytearray(64))

    with disk.open_read(file) as source:
        assert read_by_seeking(source.descriptor, view, len(BYTES) - 40) == 40

    assert view[:40] == BYTES[-40:]


def test_closing_twice_closes_nothing_else(file: Path) -> None:
    source = disk.open_read(file)
    source.close()
    with disk.open_read(file) as other:
        source.close()

        assert disk.size(other) == len(BYTES)


def test_an_open_file_is_not_inherited_by_other_programs(file: Path) -> None:
    with disk.open_read(file) as source:
        assert not os.get_inheritable(source.descriptor)


def test_a_file_made_anew_is_not_the_one_that_someone_deleted(tmp_path: Path) -> None:
    disk = Disk()
    disk.create(tmp_path / "file", 4)
    disk.write_at(tmp_path / "file", b"old!", 0)
    (tmp_path / "file").unlink()

    disk.create(tmp_path / "file", 4)
    disk.write_at(tmp_path / "file", b"new!", 0)

    assert (tmp_path / "file").read_bytes() == b"new!"


def test_a_released_directory_may_be_replaced_by_others(tmp_path: Path) -> None:
    disk = Disk()
    disk.create(tmp_path / "file", 4)
    assert disk.read_at(tmp_path / "file", 4, 0) == bytes(4)
    disk.release(tmp_path)
    (tmp_path / "other").write_bytes(b"new!")
    (tmp_path / "other").replace(tmp_path / "file")

    assert disk.read_at(tmp_path / "file", 4, 0) == b"new!"


def test_a_listing_tells_when_a_file_was_changed(file: Path) -> None:
    os.utime(file, ns=(0, 1_700_000_000_123_999_999))

    (entry,) = disk.list_directory(file.parent)
    assert entry.mtime_ms == 1_700_000_000_123


def test_the_free_space_is_what_the_system_says(tmp_path: Path) -> None:
    system = os.statvfs(tmp_path)

    free = disk.free_size(tmp_path)
    assert 0 < free <= system.f_blocks * system.f_frsize
    with pytest.raises(DiskError, match="get the free space of"):
        disk.free_size(tmp_path / "gone")


def test_the_available_space_is_that_of_df_and_the_free_space_that_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = os.statvfs_result((4096, 4096, 1000, 300, 100, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: system)

    for user, kept, free in ((0, 0, 300), (0, 40, 260), (0, 250, 100), (1000, 40, 100)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        monkeypatch.setattr("stratalog.files.reading._kept_blocks", lambda _, kept=kept: kept)
        assert disk.free_size(tmp_path) == free * 4096
        assert disk.available_size(tmp_path) == 100 * 4096


def test_a_mount_is_read_only_if_the_system_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = list(os.statvfs(tmp_path))
    assert not disk.is_read_only(tmp_path)
    with pytest.raises(DiskError, match="look at the file system of"):
        disk.is_read_only(tmp_path / "gone")

    system[8] |= os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(system))

    assert disk.is_read_only(tmp_path)


def test_a_file_system_that_an_error_has_stopped_is_read_only_although_it_is_mounted_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path.stat().st_dev
    line = (
        f"31 1 {os.major(device)}:{os.minor(device)} / /data rw,relatime - ext4 /dev/loop0 rw,emergency_ro\n"
    )
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"\n22 1 0:0 / / rw - tmpfs tmpfs rw\n{line}")
    monkeypatch.setattr(reading, "_MOUNTS", str(mounts))

    assert disk.is_read_only(tmp_path)

    mounts.write_text(line.replace(",emergency_ro", ""))
    assert not disk.is_read_only(tmp_path)
    mounts.unlink()
    assert not disk.is_read_only(tmp_path)


def test_two_directories_of_one_file_system_are_on_one_device(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()

    assert disk.is_same_device(tmp_path, tmp_path / "below")
    assert not disk.is_same_device(tmp_path, tmp_path / "gone")


def test_a_small_file_that_was_replaced_by_another_process_is_read_as_it_is_now(tmp_path: Path) -> None:
    disk, path, other = Disk(), tmp_path / "checkpoint", tmp_path / "other"
    path.write_bytes(b"old")
    assert disk.read_at(path, 10, 0) == b"old"  # from now on its descriptor is kept open
    other.write_bytes(b"newer")
    other.rename(path)

    assert disk.read_file(path) == b"newer"
    assert disk.read_file(tmp_path / "none") is None
    assert disk.read_file(path / "below a file") is None


def test_a_pipe_under_the_name_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "leader-epoch-checkpoint")

    assert Disk().read_file(tmp_path / "leader-epoch-checkpoint") == b""
    with pytest.raises(DiskError):
        Disk().read_at(tmp_path / "leader-epoch-checkpoint", 10, 0)


def test_a_sparse_file_that_claims_a_terabyte_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.touch()
    os.truncate(path, 1 << 40)

    with pytest.raises(DiskError, match="1099511627776 bytes") as caught:
        Disk().read_file(path)

    assert caught.value.errno == errno.EFBIG


def test_a_size_that_a_damaged_length_asks_for_takes_no_memory(file: Path) -> None:
    """The whole size would be allocated before a byte is read."""
    assert Disk().read_at(file, 1 << 62, 3) == file.read_bytes()[3:]
    assert Disk().read_at(file, 1 << 62, 1 << 40) == b""


def test_reading_at_a_position_ends_where_the_file_does(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")

    assert disk.read_at(path, 4, 3) == b"3456"
    assert disk.read_at(path, 100, 7) == b"789"
    assert disk.read_at(path, 4, 10) == b""
    assert disk.read_at(path, 0, 0) == b""


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_sizes_are_listed_for_files_and_links_to_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_descriptors: bool
) -> None:
    """With a system that can list a directory through its descriptor, and with one that cannot."""
    (tmp_path / "a.log").write_bytes(b"four")
    (tmp_path / "a.index").write_bytes(b"entries")
    (tmp_path / "b.log").symlink_to(tmp_path / "a.log")
    (tmp_path / "c.log").mkdir()
    (tmp_path / "d.log").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "e.log")
    if not has_descriptors:
        monkeypatch.setattr(os, "supports_fd", set())

    assert DiskReader().list_sizes(tmp_path, ".log") == {"a.log": 4, "a.index": 0, "b.log": 4}


@pytest.mark.parametrize(("name", "code"), [("gone", errno.ENOENT), ("file", errno.ENOTDIR)])
def test_sizes_of_what_is_not_a_directory_are_refused(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DiskError) as caught:
        DiskReader().list_sizes(tmp_path / name, ".log")

    assert caught.value.errno == code
