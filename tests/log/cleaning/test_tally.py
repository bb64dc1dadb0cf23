"""Counts of each key, compared with a plain dictionary; and the bound of what a full table misses."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.log.cleaning import OffsetMap, clean_log
from stratalog.log.cleaning.runs import RunReader
from stratalog.log.cleaning.tally import KEY_ROOM, KeyTally, Prefix, Tally, disk_shares
from stratalog.records.kernels.decode import RECORD
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.tally import AMOUNTS
from stratalog.segment.segment_reader import SegmentReader
from tests.fixtures.catalog import partitions
from tests.log.cleaning.dirty import NOW, Dirty


def add(tally: Tally, keys: list[bytes], sizes: list[int]) -> None:
    rows = np.zeros(len(keys), RECORD)
    rows["key_size"] = [len(key) for key in keys]
    rows["key_position"] = np.cumsum([0, *(len(key) for key in keys)])[:-1]
    amounts = np.zeros((len(keys), AMOUNTS))
    amounts[:, 0] = 1
    amounts[:, 1] = sizes
    tally.add(byte_array(b"".join(keys) + b"."), rows, amounts)


def test_the_keys_with_the_most_come_first() -> None:
    random = Random(1)
    keys = [b"k%d" % min(random.randrange(100), random.randrange(100)) for _ in range(5000)]
    sizes = [random.randrange(1000) for _ in keys]
    versions, bytes_of = Counter(keys), Counter[bytes]()
    for key, size in zip(keys, sizes, strict=True):
        bytes_of[key] += size
    tally = Tally()

    for start in range(0, len(keys), 700):
        add(tally, keys[start : start + 700], sizes[start : start + 700])

    found = tally.largest("bytes", 10)
    assert [count.bytes for count in found] == [size for _, size in bytes_of.most_common(10)]
    assert all(count.bytes == bytes_of[count.key] for count in found)
    assert all(count.versions == versions[count.key] for count in tally.largest("versions", 100))
    assert all(count.missed_bytes == 0 == count.missed_versions for count in found)


def test_a_full_table_never_misses_more_than_it_says() -> None:
    random = Random(2)
    versions, bytes_of = Counter[bytes](), Counter[bytes]()
    tally = Tally(slots_count=64)
    for _ in range(40):
        keys = [b"hot" if random.random() < 0.2 else b"k%d" % random.randrange(2000) for _ in range(100)]
        sizes = [random.randrange(1, 100) for _ in keys]
        versions.update(keys)
        for key, size in zip(keys, sizes, strict=True):
            bytes_of[key] += size
        add(tally, keys, sizes)

    assert tally.largest("versions", 1)[0].key == b"hot"
    for count in tally.largest("bytes", 64):
        assert count.bytes <= bytes_of[count.key] <= count.bytes + count.missed_bytes
        assert count.versions <= versions[count.key] <= count.versions + count.missed_versions


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (Prefix(size=3), {b"use": 2, b"ord": 1, b"x": 1}),
        (Prefix(delimiter=ord(":")), {b"user:": 2, b"order:": 1, b"x": 1}),
        (Prefix(size=5, delimiter=ord(":")), {b"user:": 2, b"order": 1, b"x": 1}),
    ],
)
def test_prefixes_are_the_first_bytes_or_end_with_the_delimiter(
    prefix: Prefix, expected: dict[bytes, int]
) -> None:
    tally = Tally(prefix)

    add(tally, [b"user:1", b"user:2:x", b"order:1", b"x"], [1, 1, 1, 1])

    assert {count.key: count.versions for count in tally.largest("versions", 10)} == expected


def test_of_a_long_key_the_first_bytes_are_shown() -> None:
    tally = Tally()
    long = b"k" * (KEY_ROOM + 50)

    add(tally, [long, long[:-1] + b"x"], [1, 2])

    found = tally.largest("bytes", 10)
    assert [(count.key, count.key_size) for count in found] == [(long[:KEY_ROOM], len(long))] * 2


def test_what_a_cleaning_frees_is_shared_by_the_keys_that_lose_records() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"x" * 100), (b"b", b"y" * 10))
    dirty.put((b"a", b"x" * 100))
    dirty.put((b"a", b"z"), (b"b", b"y"), (b"c", b"y"), (None, b"no key"))
    dirty.roll()
    tally = Tally()

    result = clean_log(
        dirty.bounds(),
        OffsetMap(24 * 100),
        now_ms=NOW,
        replace_segments=None,
        observe=KeyTally([tally]).observe,
    )

    found = {count.key: count for count in tally.largest("versions", 10)}
    assert {key: count.versions for key, count in found.items()} == {b"a": 3, b"b": 2, b"c": 1}
    assert {key: count.bytes for key, count in found.items()} == {b"a": 204, b"b": 13, b"c": 2}
    freed = result.stats.bytes_read - result.stats.bytes_written
    without_key = freed - sum(count.freed for count in found.values())
    assert found[b"c"].freed == 0
    assert found[b"a"].freed > found[b"b"].freed > 0
    assert len(b"no key") <= without_key <= 2 * len(b"no key") + 8


@pytest.mark.parametrize("slots_count", [64, 1 << 15])
def test_parts_that_are_merged_count_what_one_would_and_never_miss_more_than_they_say(
    slots_count: int,
) -> None:
    random = Random(3)
    versions, bytes_of = Counter[bytes](), Counter[bytes]()
    whole = Tally(slots_count=slots_count)
    for _ in range(5):
        part = whole.blank()
        for _ in range(10):
            keys = [b"hot" if random.random() < 0.2 else b"k%d" % random.randrange(2000) for _ in range(100)]
            sizes = [random.randrange(1, 100) for _ in keys]
            versions.update(keys)
            for key, size in zip(keys, sizes, strict=True):
                bytes_of[key] += size
            add(part, keys, sizes)
        part.unseen_size = 2.0
        whole.merge(part)

    assert whole.largest("versions", 1)[0].key == b"hot"
    assert whole.unseen_size == 10.0
    found = whole.largest("bytes", 1 << 15)
    for count in found:
        assert count.bytes <= bytes_of[count.key] <= count.bytes + count.missed_bytes
        assert count.versions <= versions[count.key] <= count.versions + count.missed_versions
    if slots_count > len(versions):
        assert {count.key: (count.versions, count.bytes) for count in found} == {
            key: (versions[key], bytes_of[key]) for key in versions
        }


def test_prefixes_are_merged_by_their_names() -> None:
    whole = Tally(Prefix(delimiter=ord(":")))
    for keys in ([b"user:1", b"order:1"], [b"user:2", b"user:3"]):
        part = whole.blank()
        add(part, keys, [1] * len(keys))
        whole.merge(part)

    assert {count.key: count.versions for count in whole.largest("versions", 10)} == {
        b"user:": 3,
        b"order:": 1,
    }


def test_the_shares_of_a_batch_are_its_bytes_by_the_size_of_its_records() -> None:
    (partition,) = [each for each in partitions("4.3.1", "clean") if each.name == "headers-0"]
    log = partition.logs[0]
    segment = SegmentReader(Disk(), log.parent, int(log.stem), LogConfig())

    with RunReader().read(segment) as runs:
        for run in runs:
            shares = disk_shares(run)

            assert shares.sum() == pytest.approx(run.size)
            sizes = np.bincount(run.rows["batch"], weights=shares)
            assert sizes == pytest.approx(run.batches["size"])
    batches = list(partition.batches(log))
    assert len(shares) == sum(len(batch["records"]) for batch in batches)
