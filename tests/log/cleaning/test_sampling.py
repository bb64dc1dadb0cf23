"""A sample of a log estimates what cleaning frees, within its bound; the cleaner gives the true value."""

from __future__ import annotations

from random import Random

import pytest

from stratalog.log.cleaning import OffsetMap
from stratalog.log.cleaning.sampling import Sampled, estimate_freed, sample_log
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from tests.log.cleaning.dirty import NOW, Dirty, Pair
from tests.profile import examples

TOPICS = 100
MISSES = 5  # of a hundred, that a bound of 95 in 100 allows
ROOM = 24 * 100_000


def test_equal_ratios_leave_what_was_not_seen() -> None:
    found = estimate_freed([0.5] * 100, 1_000_000)

    assert (found.freed, found.bound) == (500_000, 30_000)


def test_the_bound_is_twice_the_standard_error_and_three_in_n() -> None:
    found = estimate_freed([0.0, 1.0] * 50, 1_000_000)

    # Fifty pairs that differ by 1: the root of fifty by a hundred draws.
    assert (found.freed, found.bound) == (500_000, round(1_000_000 * (2 * 50**0.5 / 100 + 0.03)) + 1)


def test_without_a_draw_nothing_is_known() -> None:
    assert estimate_freed([], 1000) == Sampled(size=1000, freed=0, bound=1000, draws_count=0)


class Topic:
    """A log from a seed: how keys repeat, how large batches are, and how that changes on the way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.dirty = Dirty(internal_segment_bytes=1 << 20)
        self.next_key = 0
        choice = self.random.choice
        phases = [(choice(["few", "many", "hot", "new"]), choice([1, 4, 20])) for _ in range(choice([1, 3]))]
        self.codecs = choice([[Codec.NONE], [Codec.LZ4], [Codec.NONE, Codec.ZSTD, Codec.GZIP]])
        self.value_size = choice([5, 100, 400])
        transactional = choice([False, False, True])
        for kind, records_count in phases:
            for _ in range(30 // len(phases)):
                self._append([self._batch(kind, records_count) for _ in range(19)])
                if transactional:
                    self.dirty.produce(7, self._pair(kind), transactional=True)
                    self.dirty.end(7, choice([ControlType.COMMIT, ControlType.ABORT]))
            self.dirty.roll()
        if len(phases) > 1 and choice([True, False]):
            self.dirty.checkpoint = self.dirty.log.segments.base_offsets[1]

    def _batch(self, kind: str, records_count: int) -> list[Pair]:
        return [self._pair(kind) for _ in range(self.random.randint(1, records_count))]

    def _append(self, batches: list[list[Pair]]) -> None:
        """All of them at once: one by one takes ten times as long."""
        data, offset = bytearray(), self.dirty.log.log_end_offset
        for pairs in batches:
            records = [Record(offset + i, NOW, key, value) for i, (key, value) in enumerate(pairs)]
            options = BatchOptions(codec=self.random.choice(self.codecs), partition_leader_epoch=0)
            data += build_batch(records, options)
            offset += len(records)
        self.dirty.log.append_as_follower(bytes(data), leader_epoch=0)

    def _pair(self, kind: str) -> Pair:
        random = self.random
        self.next_key += 1
        number = {
            "few": random.randrange(50),
            "many": random.randrange(4000),
            "hot": 0 if random.random() < 0.7 else random.randrange(1000),
            "new": 10_000 + self.next_key,
        }[kind]
        if random.random() < 0.05:
            return b"key-%d" % number, None
        return b"key-%d" % number, random.randbytes(random.randint(1, self.value_size))

    def sample(self, draws_count: int, seed: int = 1) -> Sampled:
        return sample_log(
            self.dirty.bounds(), OffsetMap(ROOM), draws_count=draws_count, seed=seed, now_ms=NOW
        )

    def freed(self) -> int:
        size = self.dirty.log.size
        self.dirty.clean(keys=100_000)
        return size - self.dirty.log.size


def test_what_is_freed_lies_within_the_bound() -> None:
    count = examples(TOPICS)
    misses = 0
    for seed in range(count):
        topic = Topic(seed)
        found = topic.sample(120)

        assert 0 < found.bound < found.size / 4
        misses += abs(found.freed - topic.freed()) > found.bound

    assert misses <= MISSES * count / TOPICS


def test_another_seed_draws_other_batches() -> None:
    topic = Topic(5)

    assert len({topic.sample(50, seed).freed for seed in range(5)}) > 1
    assert topic.sample(50, 3) == topic.sample(50, 3)


def test_every_batch_drawn_gives_what_is_freed() -> None:
    dirty = Dirty()
    for value in (b"1", b"2"):
        dirty.put((b"a", value))
    dirty.roll()

    found = sample_log(dirty.bounds(), OffsetMap(ROOM), draws_count=2, seed=0, now_ms=NOW)

    size = dirty.log.size
    dirty.clean()
    assert found.freed == size - dirty.log.size


def test_a_map_without_room_for_the_keys_of_all_draws_takes_fewer() -> None:
    dirty = Dirty()
    for number in range(64):
        dirty.put((b"%d" % number, b"v"))
    dirty.roll()

    found = sample_log(dirty.bounds(), OffsetMap(24 * 20), draws_count=64, seed=0, now_ms=NOW)

    assert found.draws_count == 16
    assert found.freed == 0


@pytest.mark.parametrize("keys", [0, 5])
def test_a_log_with_nothing_to_clean_has_nothing_to_draw(keys: int) -> None:
    dirty = Dirty()
    for number in range(keys):
        dirty.put((b"%d" % number, b"v"))  # all of it in the active segment

    found = sample_log(dirty.bounds(), OffsetMap(ROOM), draws_count=64, seed=0, now_ms=NOW)

    assert (found.freed, found.bound) == (0, 0)
