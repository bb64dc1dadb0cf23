"""Compaction against a plain model: no latest value is lost, nothing older stays, tombstones as promised.

A history writes keys, tombstones, transactions and records of idempotent producers, rolls, waits, and cleans
with maps of any size. The model is a list of what was written, and knows neither batches nor maps: of a key's
committed records only the latest below the point that is clean may be left there, and must be, unless it is
a tombstone whose time is over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.log.api.consume import consume
from stratalog.log.reading import Isolation
from stratalog.records.build import Record
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from tests import profile
from tests.log.cleaning.dirty import Dirty, records_of

RETENTION_MS = 1000
Step = tuple[Any, ...]

keys = st.sampled_from([b"a", b"b", b"c", b"d", b""])
values = st.one_of(st.none(), st.binary(max_size=8), st.binary(max_size=8))
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=5)
steps = st.one_of(
    st.tuples(st.just("put"), pairs, st.sampled_from(Codec)),
    st.tuples(st.just("put"), pairs, st.sampled_from(Codec)),
    st.tuples(st.just("produce"), st.integers(1, 2), pairs),
    st.tuples(st.just("transact"), st.integers(3, 4), pairs),
    st.tuples(st.just("end"), st.integers(3, 4), st.sampled_from([ControlType.ABORT, ControlType.COMMIT])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("wait"), st.sampled_from([1, RETENTION_MS - 1, RETENTION_MS])),
    st.tuples(st.just("clean"), st.sampled_from([1, 2, 3, 100])),
)


class Written(NamedTuple):
    """A record of the model."""

    offset: int
    key: bytes
    value: bytes | None


class History:
    """A log and the list of what was written to it."""

    def __init__(self) -> None:
        self.dirty = Dirty(
            internal_segment_bytes=600, segment_index_bytes=1000, delete_retention_ms=RETENTION_MS
        )
        self.committed: list[Written] = []
        self.aborted: set[int] = set()
        self.open: dict[int, list[Written]] = {}
        self.cleaned_at: dict[int, int] = {}  # offset of a tombstone: the time of the first cleaning over it

    def do(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, name)(*arguments)

    def put(self, given: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.committed += self._written(self.dirty.put(*given, codec=codec), given)

    def produce(self, producer_id: int, given: list[tuple[bytes, bytes | None]]) -> None:
        self.committed += self._written(self.dirty.produce(producer_id, *given), given)

    def transact(self, producer_id: int, given: list[tuple[bytes, bytes | None]]) -> None:
        first = self.dirty.produce(producer_id, *given, transactional=True)
        self.open.setdefault(producer_id, []).extend(self._written(first, given))

    def end(self, producer_id: int, kind: ControlType) -> None:
        if producer_id in self.open:
            self.dirty.end(producer_id, kind)
            records = self.open.pop(producer_id)
            if kind is ControlType.COMMIT:
                self.committed = sorted([*self.committed, *records])
            else:
                self.aborted |= {record.offset for record in records}

    def roll(self) -> None:
        self.dirty.roll()

    def wait(self, ms: int) -> None:
        self.dirty.wait(ms)

    def clean(self, room: int) -> None:
        log = self.dirty.log
        first = log.segments.floor(min(log.last_stable_offset, log.segments.active.base_offset))
        assert first is not None
        if first.base_offset <= self.dirty.checkpoint:
            self.dirty.checkpoint = 0  # nothing is new: time alone may have made something due
        bases = [segment.base_offset for segment in log.segments]
        result = self.dirty.clean(keys=room, end=first.base_offset)
        now = self.dirty.machine.clock()
        # A full map may end within a segment, but the horizons of all of it are set.
        done = {base for group in result.groups for base in group}
        end = min((base for base in bases if base not in done), default=0)
        for record in self.committed:
            if record.value is None and record.offset < end:
                self.cleaned_at.setdefault(record.offset, now)
        self.check()

    def check(self) -> None:
        found = {record.offset: record for record in records_of(self.dirty.log)}
        clean_to, now = self.dirty.checkpoint, self.dirty.machine.clock()
        latest = {record.key: record for record in self.committed}
        clean_latest = {record.key: record for record in self.committed if record.offset < clean_to}
        for record in self.committed:
            is_tombstone_over = (
                record.value is None and now >= self.cleaned_at.get(record.offset, now) + RETENTION_MS
            )
            if latest[record.key] == record and not is_tombstone_over:
                assert self._same(found.get(record.offset), record), f"{record} is lost"
            if record.offset < clean_to and (clean_latest[record.key] != record or is_tombstone_over):
                assert record.offset not in found, f"{record} is still there"
        assert not [offset for offset in self.aborted if offset < clean_to and offset in found]
        # Nothing is there that was never written, and a reader of committed records sees no other.
        known = {record.offset for record in self.committed}
        log = self.dirty.log
        seen = consume(log, 0, log.last_stable_offset, Isolation.TXN_COMMITTED)
        assert {record.offset for record in seen} <= known

    @staticmethod
    def _same(found: Record | None, record: Written) -> bool:
        return found is not None and (found.key, found.value) == (record.key, record.value)

    @staticmethod
    def _written(first: int, given: list[tuple[bytes, bytes | None]]) -> list[Written]:
        return [Written(first + i, key, value) for i, (key, value) in enumerate(given)]


@settings(max_examples=profile.examples(2000), deadline=None)
@given(st.lists(steps, min_size=3, max_size=25), st.sampled_from([1, 2, 100]))
def test_no_latest_value_is_lost_and_no_older_one_stays(history: list[Step], room: int) -> None:
    both = History()
    for step in history:
        both.do(step)

    both.roll()
    end = both.dirty.log.last_stable_offset
    for _ in range(40):  # maps of one key take many rounds
        both.clean(room)
        if both.dirty.checkpoint >= end or both.open:
            break
    both.wait(RETENTION_MS)
    both.clean(100)

    offsets = both.dirty.offsets
    reopened = both.dirty.machine.reopen(both.dirty.log)
    assert [record.offset for record in records_of(reopened)] == offsets
    reopened.close()  # 2,000 logs that stay open would take some gigabytes
