"""Files that stay open: few, the right ones, and never closed under a user."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from stratalog.files import descriptors
from stratalog.files.descriptors import DescriptorCache
from stratalog.files.disk import Disk


def make(folder: Path, count: int) -> list[str]:
    paths = [folder / f"{number:020d}.log" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 10)
    return [str(path) for path in paths]


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_the_same_file_is_opened_once(tmp_path: Path) -> None:
    cache = DescriptorCache()
    (path,) = make(tmp_path, 1)

    with cache.use(path) as first:
        assert os.pread(first, 10, 0) == bytes(10)
    with cache.use(path) as second:
        assert second == first

    cache.close()
    assert not is_open(first)


def test_no_more_than_the_limit_stay_open(tmp_path: Path) -> None:
    cache = DescriptorCache(3)
    used = []
    for path in make(tmp_path, 8):
        with cache.use(path) as descriptor:
            used.append(descriptor)

    assert cache.open_count == 3
    cache.close()
    assert cache.open_count == 0


def test_the_file_used_longest_ago_makes_room(tmp_path: Path) -> None:
    cache = DescriptorCache(2)
    a, b, c = make(tmp_path, 3)
    with cache.use(a) as descriptor_of_a, cache.use(b) as descriptor_of_b:
        pass
    with cache.use(a):
        pass
    with cache.use(c):
        assert is_open(descriptor_of_a)
        assert not is_open(descriptor_of_b)
    cache.close()


def test_a_file_in_use_is_not_closed_to_make_room(tmp_path: Path) -> None:
    cache = DescriptorCache(1)
    a, b = make(tmp_path, 2)

    with cache.use(a) as first:
        with cache.use(b) as second:
            assert os.pread(second, 1, 0) == b"\1"
        assert os.pread(first, 1, 0) == b"\0"
    assert not is_open(second)  # it found no room, so it served one use
    cache.close()


def test_a_reader_makes_way_for_a_writer_of_the_same_file(tmp_path: Path) -> None:
    cache = DescriptorCache()
    (path,) = make(tmp_path, 1)

    with cache.use(path) as reading, cache.use(path, writable=True) as writing:
        os.pwrite(writing, b"new", 0)
        assert os.pread(reading, 3, 0) == b"new"
    with cache.use(path) as third:
        assert third == writing
    assert cache.open_count == 1
    cache.close()


def test_a_forgotten_file_is_closed_when_its_users_are_done(tmp_path: Path) -> None:
    cache = DescriptorCache()
    (path,) = make(tmp_path, 1)

    with cache.use(path) as old:
        Path(path).rename(path + ".deleted")
        Path(path).write_bytes(b"another")
        cache.forget(path)
        assert os.pread(old, 1, 0) == b"\0"
        with cache.use(path) as new:
            assert os.pread(new, 7, 0) == b"another"
    assert not is_open(old)
    cache.close()


def test_forgetting_a_directory_forgets_what_is_below_it(tmp_path: Path) -> None:
    cache = DescriptorCache()
    (tmp_path / "t-1").mkdir()
    (tmp_path / "t-10").mkdir()
    (below,), (beside,) = make(tmp_path / "t-1", 1), make(tmp_path / "t-10", 1)
    with cache.use(below), cache.use(beside) as kept:
        pass
    cache.forget(str(tmp_path / "t-1"))

    assert cache.open_count == 1
    assert is_open(kept)
    cache.close()


def test_forgetting_a_file_leaves_what_is_below_its_name(tmp_path: Path) -> None:
    cache = DescriptorCache()
    (tmp_path / "a").mkdir()
    for name in ("a/file", "file"):
        (tmp_path / name).write_bytes(b"x")
        cache.use(str(tmp_path / name)).__exit__(None, None, None)

    cache.forget_file(str(tmp_path / "a"))
    assert cache.open_count == 2
    cache.forget_file(str(tmp_path / "file"))
    assert cache.open_count == 1
    cache.close()


def test_a_missing_file_is_refused_by_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DescriptorCache().use(str(tmp_path / "gone"))


def test_no_descriptor_is_inherited_by_other_programs(tmp_path: Path) -> None:
    cache = DescriptorCache()
    (path,) = make(tmp_path, 1)

    with cache.use(path, writable=True) as descriptor:
        assert not os.get_inheritable(descriptor)
    cache.close()


def test_threads_read_their_own_files_through_a_crowded_cache(tmp_path: Path) -> None:
    cache = DescriptorCache(3)
    paths = make(tmp_path, 12)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for step in range(1500):
            number = (seed * 7 + step * 5) % len(paths)
            if step % 50 == 0:
                cache.forget(paths[number])
            with cache.use(paths[number], writable=step % 3 == 0) as descriptor:
                if os.pread(descriptor, 10, 0) != bytes([number]) * 10:
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert cache.open_count <= 3
    cache.close()


def test_a_child_forked_while_an_entry_is_moved_can_forget_the_file(tmp_path: Path) -> None:
    """The thread that has taken the entry out, to put it at the end, does not exist in the child."""
    cache = DescriptorCache()
    a, b = make(tmp_path, 2)
    with cache.use(a) as taken_out, cache.use(b):
        pass
    cache._files.pop(a)

    cache.start_over_in_child()

    cache.forget(a)
    cache.forget(str(tmp_path))
    assert cache.open_count == 0
    with cache.use(a) as descriptor:
        assert os.pread(descriptor, 1, 0) == b"\0"
    cache.close()
    os.close(taken_out)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
def test_nothing_leaks(tmp_path: Path) -> None:
    cache = DescriptorCache(2)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in make(tmp_path, 6):
        with cache.use(path), cache.use(path, writable=True):
            cache.forget(path)
        with cache.use(path):
            pass
    cache.close()

    assert len(list(Path("/proc/self/fd").iterdir())) == before


disk = Disk()


def test_many_files_are_used_through_few_descriptors(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(400)]
    for number, path in enumerate(paths):
        disk.create(path)
        disk.write_at(path, number.to_bytes(4, "big"), 0)

    assert [int.from_bytes(disk.read_at(path, 4, 0), "big") for path in paths] == list(range(400))
    assert descriptors.shared.open_count <= descriptors.MAX_OPEN
    disk.close()
    assert descriptors.shared.open_count == 0
