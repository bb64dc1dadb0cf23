"""Which indexes stay in memory."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest

from stratalog.files.disk import Disk
from stratalog.segment.index_cache import IndexCache
from stratalog.segment.offset_index import OffsetEntry, OffsetIndex
from tests.segment.indexes import open_index


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    return open_index(tmp_path)


def test_the_cache_forgets_the_index_that_was_not_used_for_longest(tmp_path: Path) -> None:
    cache = IndexCache(max_bytes=10_000)
    indexes = []
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        index = OffsetIndex(Disk(), folder / "i", 0, max_size=800, cache=cache)
        for i in range(1, 40):
            index.append(i, i)
        index.lookup(5)
        indexes.append(index)

    assert cache.used_bytes <= 10_000
    assert 1 < len(cache) < 20
    assert all(index.lookup(39) == OffsetEntry(39, 39) for index in indexes)


class Held:
    """An index as the cache sees one."""

    def __init__(self) -> None:
        self.was_used = False
        self.is_forgotten = False

    def forget_entries(self) -> None:
        self.is_forgotten = True


def test_the_cache_keeps_what_is_used_and_forgets_what_is_not() -> None:
    cache = IndexCache(max_bytes=10 * 2000)
    held = [Held() for _ in range(10)]
    for each in held:
        cache.keep(each, 2000 - 1024)
    held[0].was_used = held[2].was_used = True
    new = Held()

    cache.keep(new, 2 * 2000 - 1024)

    assert [number for number, each in enumerate(held) if each.is_forgotten] == [1, 3]
    assert not new.is_forgotten
    assert cache.used_bytes == 10 * 2000


def test_the_cache_makes_room_when_all_are_in_use() -> None:
    cache = IndexCache(max_bytes=3 * 2000)
    held = [Held() for _ in range(9)]
    for each in held:
        each.was_used = True
        cache.keep(each, 2000 - 1024)

    assert (cache.used_bytes, len(cache)) == (3 * 2000, 3)
    assert not held[-1].is_forgotten


def test_the_cache_keeps_no_index_alive() -> None:
    cache = IndexCache()
    held = Held()
    cache.keep(held, 100)
    gone = weakref.ref(held)

    del held

    assert gone() is None
    assert len(cache) == 0
    assert cache.used_bytes == 0
