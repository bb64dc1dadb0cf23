"""What becomes of each batch: copied, rewritten or dropped; tombstones, and messages of old formats."""

from __future__ import annotations

import pytest

from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec, compress
from tests import naive
from tests.log.cleaning.dirty import NOW, Dirty

START = 100_000
HORIZON = START + 1000
Left = tuple[int, int, int, int | None]  # first and last offset, records, delete horizon


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_records_keeps_its_codec_and_offsets(codec: Codec) -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), codec=codec)
    dirty.put((b"a", b"2"), (b"c", b"2"), codec=codec)
    dirty.roll()

    dirty.clean()

    first = dirty.headers()[0]
    assert (first.codec, first.base_offset, first.last_offset, first.records_count) == (codec, 0, 2, 1)
    assert dirty.pairs == [(1, b"b", b"1"), (3, b"a", b"2"), (4, b"c", b"2")]


def test_a_batch_that_keeps_its_records_is_the_same_bytes() -> None:
    dirty = Dirty()
    dirty.put((b"a", b"1"), codec=Codec.ZSTD)
    dirty.roll()
    before = dirty.log.segments.first.reader.read_bytes(0, 10_000)

    dirty.clean()

    assert dirty.log.segments.first.reader.read_bytes(0, 10_000) == before


def test_records_without_a_key_go_and_are_counted() -> None:
    dirty = Dirty()
    dirty.put((None, b"x"), (b"a", b"1"))
    dirty.put((None, b"y"))
    dirty.put((b"b", b"1"))
    dirty.roll()

    result = dirty.clean()

    assert result.stats.records_without_key == 2
    assert dirty.offsets == [1, 3]


class TestTombstones:
    def test_they_stay_for_the_time_promised_and_go_at_the_horizon(self) -> None:
        """KAFKA-8522, KAFKA-4529: the first cleaning sets the horizon, and stores it in the batch."""
        dirty = Dirty(delete_retention_ms=1000)
        dirty.put((b"a", b"1"))
        dirty.put((b"a", None))
        dirty.put((b"z", b"1"))
        dirty.roll()
        dirty.wait(50_000)  # however old it is
        dirty.clean()
        assert dirty.headers()[0].delete_horizon_ms == NOW + 51_000

        found = []
        for ms in (999, 1):
            dirty.wait(ms)
            dirty.checkpoint = 0
            dirty.clean()
            found.append(dirty.offsets)

        assert found == [[1, 2], [2]]

    def test_with_the_largest_delete_retention_they_stay_for_ever(self) -> None:
        dirty = Dirty(delete_retention_ms=2**63 - 1)
        dirty.put((b"a", b"1"))
        dirty.put((b"a", None))
        dirty.put((b"z", b"1"))
        dirty.roll()

        for _ in range(3):
            dirty.checkpoint = 0
            dirty.clean()
            dirty.wait(10**12)

        assert dirty.offsets == [1, 2]
        assert dirty.headers()[0].delete_horizon_ms is None

    def test_a_horizon_is_kept_when_the_batch_is_written_again(self) -> None:
        dirty = Dirty(delete_retention_ms=1000)
        dirty.put((b"a", None), (b"b", b"1"), (b"c", b"1"))
        dirty.roll()
        dirty.clean()
        dirty.wait(500)
        dirty.put((b"b", b"2"))
        dirty.roll()

        dirty.clean()

        assert dirty.headers()[0].delete_horizon_ms == NOW + 1000
        assert [record[0] for record in dirty.pairs] == [0, 2, 3]

    def test_timestamps_stay_when_they_count_from_the_horizon(self) -> None:
        dirty = Dirty()
        dirty.put((b"a", None), (b"b", b"1"), timestamp=-1)
        dirty.put((b"c", None), timestamp=NOW + 10**9)
        dirty.roll()

        dirty.clean()

        assert [(each.max_timestamp, each.delete_horizon_ms) for each in dirty.headers()] == [
            (-1, NOW + 86_400_000),
            (NOW + 10**9, NOW + 86_400_000),
        ]


def test_a_batch_larger_than_any_buffer_is_cleaned() -> None:
    """KAFKA-6834, KAFKA-6854, KAFKA-5316: buffers follow the batch, whatever max.message.bytes is now."""
    dirty = Dirty(max_message_bytes=1000)
    dirty.put((b"a", bytes(3 << 20)), (b"b", bytes(1 << 20)))
    dirty.put((b"a", b"2"))
    dirty.roll()

    dirty.clean()

    assert dirty.offsets == [1, 2]


def test_a_batch_that_grows_when_it_is_written_anew_is_written() -> None:
    """KAFKA-5316: timestamps that count from the delete horizon take more bytes than the batch had."""
    dirty = Dirty()
    dirty.put(*((b"%d" % number, None) for number in range(2000)))
    dirty.roll()
    before = dirty.headers()[0].size

    dirty.clean()

    assert dirty.offsets == [*range(2000)]
    assert dirty.headers()[0].size > before


def test_old_messages_become_batches_with_horizons_as_kafka_makes_them() -> None:
    dirty = all_formats()

    rounds = [cleaned(dirty, now_ms) for now_ms in (START, START + 500, HORIZON)]

    first: list[Left] = [
        (1, 1, 1, None),
        (2, 2, 1, HORIZON),
        (4, 5, 2, None),
        (6, 8, 2, HORIZON),
        (9, 10, 1, None),
        (11, 11, 1, None),
        (12, 12, 1, None),
        (14, 14, 1, HORIZON),
    ]
    # The tombstones are gone: one with its batch, one out of its batch, and of the last one only a header is
    # left.
    last: list[Left] = [first[0], first[2], (6, 8, 1, HORIZON), *first[4:7], (14, 14, 0, None)]
    assert rounds == [first, first, last]


def test_tombstones_of_old_formats_go_by_the_age_of_what_is_clean() -> None:
    dirty = Dirty(delete_retention_ms=1000)
    message(dirty, 0, b"a", None)
    message(dirty, 1, b"b", b"1")
    dirty.put((b"c", b"1"), offset=2)
    dirty.roll()
    dirty.wait(5000)
    dirty.put((b"d", b"1"), offset=3)
    dirty.roll()
    dirty.checkpoint = 4  # as if all of it had been cleaned by a broker that kept the format
    dirty.wait(1)
    dirty.put((b"e", b"1"), offset=4)
    dirty.roll()

    dirty.clean()

    assert dirty.offsets == [1, 2, 3, 4]


def test_absolute_offsets_in_a_wrapper_of_format_1_are_read_as_such() -> None:
    """KAFKA-4298: old cleaners wrote such wrappers, with holes between the offsets inside."""
    dirty = Dirty()
    inner = [naive.Record(offset, 600, b"k%d" % offset, b"v") for offset in (0, 2, 5)]
    wrapper(dirty, inner)
    dirty.put((b"k2", b"new"), offset=6)
    dirty.roll()

    dirty.clean()

    assert dirty.pairs == [(0, b"k0", b"v"), (5, b"k5", b"v"), (6, b"k2", b"new")]
    assert [(each.base_offset, each.last_offset, each.codec) for each in dirty.headers()] == [
        (0, 5, Codec.GZIP),
        (6, 6, Codec.NONE),
    ]


def all_formats() -> Dirty:
    """Formats 0, 1 in a wrapper, and 2, of keys that repeat."""
    dirty = Dirty(delete_retention_ms=1000, index_interval_bytes=100)
    message(dirty, 0, b"k0", b"v")
    message(dirty, 1, b"k0", b"v")
    message(dirty, 2, b"k1", None)
    wrapper(dirty, [naive.Record(3 + i, 600, key, b"v") for i, key in enumerate((b"k2", b"k2", b"k5"))])
    batches = [[b"k3", b"k3", b"-k4"], [b"k6", b"k6"], [b"k7"], [b"k8"], [b"k9"], [b"-k9"]]
    offset = 6
    for keys in batches:
        records = [
            Record(offset + i, 701, key.lstrip(b"-"), None if key.startswith(b"-") else b"v")
            for i, key in enumerate(keys)
        ]
        dirty.log.append_as_follower(
            build_batch(records, BatchOptions(partition_leader_epoch=0)), leader_epoch=0
        )
        offset += len(keys)
    dirty.roll()
    return dirty


def message(dirty: Dirty, offset: int, key: bytes, value: bytes | None) -> None:
    data = naive.encode_message(naive.Record(offset, -1, key, value), magic=0)
    dirty.log.append_as_follower(data, leader_epoch=0)


def wrapper(dirty: Dirty, inner: list[naive.Record]) -> None:
    """A gzip wrapper of format 1 whose messages have absolute offsets."""
    whole = b"".join(naive.encode_message(record, magic=1) for record in inner)
    outer = naive.Record(inner[-1].offset, 600, None, compress(Codec.GZIP, whole, magic=1))
    data = naive.encode_message(outer, magic=1, attributes=Codec.GZIP)
    dirty.log.append_as_follower(data, leader_epoch=0)


def cleaned(dirty: Dirty, now_ms: int) -> list[Left]:
    """All that is left of the batches after a cleaning from the start, at this time."""
    dirty.machine.clock.now = now_ms
    dirty.checkpoint = 0
    dirty.clean()
    return [
        (each.base_offset, each.last_offset, each.records_count, each.delete_horizon_ms)
        for each in dirty.headers()
    ]
