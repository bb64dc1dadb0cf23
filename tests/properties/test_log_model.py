"""A random history of a log against a plain list of batches: the same records, marks and answers each time.

Appends of every shape (as leader and as follower, with gaps, codecs, sequences, transactions, duplicates),
rolls by size, age and full index, truncations, deletions of records, and closing and opening in between. The
disk is simulated, the clock is turned by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.files.names import FileKind, parse_segment_file
from stratalog.log.api.consume import consume
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from stratalog.records.reader import read_batches
from stratalog.segment.sanity import sanity_check
from tests import profile
from tests.log.model import NOW, LogModel, Machine, ModelBatch, append_marker, produced, read_all

Step = tuple[Any, ...]

values = st.lists(st.binary(max_size=60), min_size=1, max_size=4)
drifts = st.integers(-50, 100)
fractions = st.floats(0, 1)
steps = st.one_of(
    st.tuples(st.just("append"), values, drifts, st.sampled_from(Codec)),
    st.tuples(st.just("append"), values, drifts, st.sampled_from(Codec)),
    st.tuples(
        st.just("follow"), st.lists(values, min_size=1, max_size=4), drifts, st.sampled_from([0, 0, 1, 7])
    ),
    st.tuples(st.just("produce"), st.integers(1, 3), values, drifts),
    st.tuples(st.just("send_again"), st.integers(1, 3)),
    st.tuples(st.just("transact"), st.integers(4, 6), values, drifts),
    st.tuples(st.just("end"), st.integers(4, 6), st.sampled_from([ControlType.ABORT, ControlType.COMMIT])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("truncate"), fractions),
    st.tuples(st.just("truncate_fully"), st.integers(0, 20)),
    st.tuples(st.just("delete"), fractions),
    st.tuples(st.just("wait"), st.integers(0, 2000)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("reopen")),
)


class History:
    """The log and its model, changed together."""

    def __init__(self, **settings: int) -> None:
        self.machine = Machine(**settings)
        self.log = self.machine.open()
        self.model = LogModel()
        self.timestamp = NOW
        self.epoch = 0
        self.generation = 0  # producers get new ids when a log may have forgotten where they were
        self.sequences: dict[int, int] = {}
        self.last_sent: dict[int, tuple[bytes, ModelBatch]] = {}
        self.is_state_known = True

    def do(self, step: Step) -> None:
        name, *arguments = step
        action: Callable[..., None] = getattr(self, name)
        action(*arguments)

    def append(self, contents: list[bytes], drift: int, codec: Codec) -> None:
        records = self._records(contents, drift, 0)
        info = self.log.append_as_leader(
            build_batch(records, BatchOptions(codec=codec)), leader_epoch=self.epoch
        )
        self._appended(info.first_offset, ModelBatch(records=self._moved(records)))

    def follow(self, sets: list[list[bytes]], drift: int, gap: int) -> None:
        """Batches of a leader, in the next epoch if there is a gap before them."""
        self.epoch += gap > 0
        offset, data, batches = self.model.end + gap, b"", []
        for contents in sets:
            records = self._records(contents, drift, offset)
            data += build_batch(records, BatchOptions(partition_leader_epoch=self.epoch))
            batches.append(ModelBatch(records=records))
            offset = records[-1].offset + 1 + gap
        if len(data) > self.machine.config.segment_size:
            return
        self.log.append_as_follower(data, leader_epoch=self.epoch)
        for batch in batches:
            self.model.append(batch)

    def produce(self, number: int, contents: list[bytes], drift: int, transactional: bool = False) -> None:
        producer_id = number + 10 * self.generation
        sequence = self.sequences.get(producer_id, 0)
        records = self._records(contents, drift, 0)
        data = produced(
            producer_id, sequence, *contents, timestamp=records[0].timestamp, transactional=transactional
        )
        info = self.log.append_as_leader(data, leader_epoch=self.epoch)
        batch = ModelBatch(
            records=self._moved(records), producer_id=producer_id, is_transactional=transactional
        )
        self._appended(info.first_offset, batch)
        self.sequences[producer_id] = sequence + len(contents)
        self.last_sent[producer_id] = data, batch

    def send_again(self, number: int) -> None:
        """The last batch of a producer comes once more: it is known, and not written again."""
        producer_id = number + 10 * self.generation
        if producer_id in self.last_sent:
            data, batch = self.last_sent[producer_id]
            info = self.log.append_as_leader(data, leader_epoch=self.epoch)
            assert (info.first_offset, info.last_offset) == (batch.first_offset, batch.last_offset)

    def transact(self, number: int, contents: list[bytes], drift: int) -> None:
        self.produce(number, contents, drift, transactional=True)

    def end(self, number: int, kind: ControlType) -> None:
        producer_id = number + 10 * self.generation
        offset = append_marker(self.log, producer_id, kind, leader_epoch=self.epoch, timestamp=self.timestamp)
        record = read_all(self.log, offset)[0]
        self._appended(offset, ModelBatch(records=(record,), producer_id=producer_id, ends=kind))
        self.last_sent.pop(producer_id, None)

    def roll(self) -> None:
        self.log.roll()

    def truncate(self, fraction: float) -> None:
        offset = round(self.model.end * fraction)
        self.log.truncate_to(offset)
        self.model.truncate_to(offset)
        self._state_was_rebuilt()

    def truncate_fully(self, jump: int) -> None:
        offset = self.model.end + jump
        self.log.truncate_fully_and_start_at(offset)
        self.model.truncate_fully(offset)
        self._new_generation()
        self.is_state_known = True

    def delete(self, fraction: float) -> None:
        offset = self.model.start + round((self.model.end - self.model.start) * fraction)
        assert self.log.delete_records(offset) == offset
        self.is_state_known &= offset == self.model.start
        self.model.start = offset

    def wait(self, ms: int) -> None:
        self.machine.clock.sleep(ms)
        self.machine.scheduler.run_due()

    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.model.end

    def reopen(self) -> None:
        active_base = self.log.segments.active.base_offset
        self.log = self.machine.reopen(self.log)
        before = self.model.end
        self.model.reopen(active_base)
        if self.model.end != before:
            self._state_was_rebuilt()

    def _records(self, contents: list[bytes], drift: int, first_offset: int) -> tuple[Record, ...]:
        self.timestamp = max(NOW, self.timestamp + drift)
        return tuple(
            Record(first_offset + i, self.timestamp, None, value) for i, value in enumerate(contents)
        )

    def _moved(self, records: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(record._replace(offset=record.offset + self.model.end) for record in records)

    def _appended(self, first_offset: int, batch: ModelBatch) -> None:
        assert first_offset == self.model.end
        self.model.append(batch)

    def _state_was_rebuilt(self) -> None:
        """Producers match the remaining batches; if their first batches are gone, they are unknown."""
        if not self.is_state_known:
            self._new_generation()
            return
        self.sequences.clear()
        self.last_sent = {
            producer_id: sent for producer_id, sent in self.last_sent.items() if sent[1] in self.model.batches
        }
        for batch in self.model.batches:
            if batch.producer_id > 0 and batch.ends is None:
                before = self.sequences.get(batch.producer_id, 0)
                self.sequences[batch.producer_id] = before + len(batch.records)

    def _new_generation(self) -> None:
        self.generation += 1
        self.sequences.clear()
        self.last_sent.clear()

    # What must be so after each step

    def check(self) -> None:
        self.check_marks()
        self.check_records()
        self.check_times()
        self.check_files()

    def check_marks(self) -> None:
        log, model = self.log, self.model
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        # If the log starts inside a batch, a mark in that batch is the batch's first offset, as in Kafka.
        stable = max(log.last_stable_offset, log.log_start_offset)
        assert log.log_start_offset <= stable <= log.high_watermark == log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        if self.is_state_known:
            assert stable == model.last_stable_offset()
        entries = log.epochs.entries
        assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(entries))
        # The last one may say where an epoch will begin; nothing is known of what was truncated.
        assert not entries or entries[-1].start_offset <= log.log_end_offset

    def check_records(self) -> None:
        log, model = self.log, self.model
        assert read_all(log) == model.records(markers=True)
        middle = (model.start + model.end) // 2
        expected = [record for record in model.records(markers=False) if record.offset >= middle]
        assert plain(log, middle, Isolation.HIGH_WATERMARK) == expected
        if self.is_state_known:
            assert plain(log, model.start, Isolation.TXN_COMMITTED) == model.committed()

    def check_times(self) -> None:
        for timestamp in (NOW, (NOW + self.timestamp) // 2, self.timestamp, self.timestamp + 1):
            expected = self.model.first_not_before(timestamp)
            found = self.log.first_not_before(timestamp)
            assert (found and found[:2]) == (expected and (expected.timestamp, expected.offset))

    def check_files(self) -> None:
        """The files hold the batches and nothing else, and each index entry leads to its batch."""
        model = self.model
        offsets = []
        for segment in self.log.segments:
            sanity_check(segment.reader)
            data = self.machine.disk.read_at(segment.log_path, 1 << 20, 0)
            assert len(data) == segment.size <= self.machine.config.segment_size
            found = {batch.facts.position: batch.facts for batch in read_batches(data)}
            offsets += [(facts.base_offset, facts.last_offset) for facts in found.values()]
            index = segment.reader.offset_index
            for number in range(index.entry_count):
                entry = index.entry(number)
                assert found[entry.position].last_offset == entry.offset
            times = [segment.reader.time_index.entry(i) for i in range(segment.reader.time_index.entry_count)]
            assert all(a.timestamp < b.timestamp for a, b in pairwise(times))
        assert offsets == [(batch.first_offset, batch.last_offset) for batch in model.batches]
        names = [parse_segment_file(name) for name in self.machine.files(".log")]
        assert [file.offset for file in names if file] == list(self.log.segments.base_offsets)

    def check_closed(self) -> None:
        """What a clean close leaves: indexes without padding, and a snapshot at the end."""
        segments = list(self.log.segments)
        entry_counts = [(s.reader.offset_index.entry_count, s.base_offset) for s in segments]
        self.log.close()
        machine = self.machine
        for entry_count, base_offset in entry_counts:
            assert machine.disk.size(f"{machine.directory}/{base_offset:020d}.index") == 8 * entry_count
        if self.model.end > self.model.start:
            assert f"{self.model.end:020d}{FileKind.PRODUCER_SNAPSHOT.value}" in machine.files()


def plain(log: Log, start: int, isolation: Isolation) -> list[Record]:
    """Records as a consumer gets them, as the model has them."""
    found = consume(log, start, log.log_end_offset, isolation)
    return [Record(each.offset, each.timestamp, each.key, each.value, each.headers) for each in found]


def run(history: list[Step], **settings: int) -> None:
    both = History(**settings)
    for step in history:
        both.do(step)
        both.check()
    both.check_closed()


@settings(max_examples=profile.examples(5000))
@given(
    st.lists(steps, min_size=1, max_size=30),
    st.sampled_from([700, 2000, 100_000]),
    st.sampled_from([1, 150, 4096]),
    st.sampled_from([48, 120, 4000]),
)
def test_a_log_is_the_list_of_its_batches(
    history: list[Step], segment_bytes: int, index_interval_bytes: int, segment_index_bytes: int
) -> None:
    run(
        history,
        internal_segment_bytes=segment_bytes,
        index_interval_bytes=index_interval_bytes,
        segment_index_bytes=segment_index_bytes,
        segment_ms=1000,
    )
