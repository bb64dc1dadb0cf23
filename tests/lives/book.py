"""What a log has promised its caller: one side of every crash test. Nothing here comes from a file.

A `Book` belongs to one partition. It records an operation when it begins, because a crash may come in the
middle, and again when it has returned. `judge` compares it with a log that was opened after a crash:

- a flushed record is there, unless it was truncated, deleted, or replaced by compaction
- the records are a prefix of those that were appended: compaction, or a truncation inside a batch, explains
  each hole
- truncated or deleted records do not come back
- transactions end as their markers say
- the last batch of a producer is recognised when it is sent again
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.records.build import Record
from stratalog.records.reader import read_batches
from tests.log.model import LogModel, ModelBatch
from tests.manager.sweeping import committed

FETCH_SIZE = 4096


class Lost(BaseException):  # not an Exception, so that nothing in Stratalog handles it
    """A promise that a log did not keep."""


@dataclass
class Sent:
    """The last batch that a producer sent, as bytes."""

    data: bytes
    batch: ModelBatch


@dataclass
class Book:
    """What is known about one partition; offsets are those that the log has assigned."""

    is_compacted: bool = False
    has_replicas: bool = False  # replicas fill a hole where nothing was flushed, so it is not an error
    batches: list[ModelBatch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    kept_start: int = 0  # the start that is on the device
    flushed_end: int = 0
    # Of the current operation:
    start_limit: int = 0
    leaving: list[ModelBatch] = field(default_factory=list)
    # Of finished operations:
    truncated: set[bytes | None] = field(default_factory=set)
    superseded: set[int] = field(default_factory=set)  # by records that were then truncated
    sent: dict[int, list[Sent]] = field(default_factory=dict)  # by producer, the last one last
    is_created: bool = False
    has_gap: bool = False  # a batch was truncated inside: the log goes on at that offset, without the batch

    # Calls

    def begin_append(self, batch: ModelBatch, data: bytes | None = None) -> None:
        """Called before the append: if it is interrupted, the batch may be there or not.

        With `data` it is a batch that an idempotent producer may send again.
        """
        self.batches.append(batch)
        if data is not None:
            self.sent.setdefault(batch.producer_id, []).append(Sent(data, batch))

    def refuse_append(self) -> None:
        """Called when the append raised an error before anything was written."""
        self.batches.pop()
        self._forget_senders()

    def end_append(self) -> None:
        self.end = self.batches[-1].last_offset + 1

    def flushed(self, end: int) -> None:
        """Called when a flush has returned that began when the log ended at `end`."""
        self.flushed_end = max(self.flushed_end, min(end, self.end))

    def begin_truncate(self, offset: int) -> None:
        """Begin a truncation, which removes whole batches. The removed ones may be there until it ends."""
        self.leaving = [batch for batch in self.batches if batch.last_offset >= offset]
        self.batches = self.batches[: len(self.batches) - len(self.leaving)]
        self.has_gap |= any(batch.first_offset < offset for batch in self.leaving)
        leaving = {record.key for batch in self.leaving for record in batch.records}
        self.superseded = {found for found in self.superseded if found < offset}
        self.superseded |= {
            record.offset for batch in self.batches for record in batch.records if record.key in leaving
        }
        self.flushed_end = min(self.flushed_end, offset)
        self.start = self.kept_start = min(self.start, self.kept_start, offset)

    def end_truncate(self, offset: int) -> None:
        self.truncated |= _values(self.leaving)
        self.leaving = []
        self.end = min(self.end, offset)
        self._forget_senders()

    def begin_delete(self, offset: int) -> None:
        self.start_limit = max(self.start_limit, offset)

    def end_delete(self, offset: int) -> None:
        self.start = self.kept_start = max(self.start, offset)
        self.start_limit = max(self.start_limit, self.start)
        self._forget_senders()

    def found(self, log: Log) -> None:
        """Another process continues after a crash: what recovery found stays, the rest must not come back."""
        there = {record.offset for record in everything(log)}
        left = []
        for batch in [*self.batches, *self.leaving]:
            found = tuple(r for r in batch.records if r.offset in there or r.offset < log.log_start_offset)
            self.truncated |= _values([batch]) - {record.value for record in found}
            if found:
                left.append(batch if len(found) == len(batch.records) else replace(batch, records=found))
        if self.is_compacted:
            # An emptied batch still shows the last sequence, which this book no longer knows.
            whole = {id(batch) for batch in left}
            self.sent = {
                producer_id: sent
                for producer_id, sent in self.sent.items()
                if all(id(one.batch) in whole for one in _ended(sent, log.log_end_offset)[-1:])
            }
        self.batches = left
        self.leaving = []
        self.start = self.kept_start = self.start_limit = log.log_start_offset
        self.end = self.flushed_end = log.log_end_offset
        self._forget_senders()

    def reopened(self, log: Log) -> None:
        """Called when the log was closed and opened: no file stores an end after the last remaining record.

        A truncation leaves such an end, inside a batch or after one that was compacted away.
        """
        offsets = [record.offset for batch in self.batches for record in batch.records]
        if self.is_compacted:
            offsets = [record.offset for record in everything(log)]
        last = max(offsets, default=-1) + 1
        if not last <= log.log_end_offset <= self.end or log.log_start_offset != self.start:
            raise Lost(
                f"{log.directory}: closed as [{self.start}, {self.end}), "
                f"opened as [{log.log_start_offset}, {log.log_end_offset})"
            )
        self.end = log.log_end_offset
        self.flushed_end = min(self.flushed_end, self.end)
        self.batches = [batch for batch in self.batches if batch.last_offset < self.end]
        self._forget_senders()

    def records(self) -> list[Record]:
        """All records that may be there, in order."""
        return [record for batch in [*self.batches, *self.leaving] for record in batch.records]

    def _forget_senders(self) -> None:
        kept = {id(batch) for batch in self.batches if batch.first_offset >= self.start}
        left = {
            producer_id: [one for one in sent if id(one.batch) in kept]
            for producer_id, sent in self.sent.items()
        }
        self.sent = {producer_id: sent for producer_id, sent in left.items() if sent}

    # Checks of a reader

    def judge_reading(self, found: list[Record], before: list[Record], start: int, end: int) -> None:
        """Raises Lost unless a read from `start` has everything that was in the log up to `end` when it
        began.

        Meanwhile records may have been appended, deleted, truncated or compacted.
        """
        now = self.records()
        known = {(record.offset, record.value) for record in [*before, *now]}
        there = {record.offset for record in found}
        kept = {(record.offset, record.value) for record in now}
        newest = {record.key: record.offset for record in now}
        unknown = [record for record in found if (record.offset, record.value) not in known]
        if unknown:
            raise Lost(f"a reader got {unknown[0]}, which was never appended")
        for record in before:
            if not max(start, self.start_limit) <= record.offset < end or record.offset in there:
                continue
            if (record.offset, record.value) not in kept:
                continue  # truncated meanwhile
            if self.is_compacted and (newest[record.key] > record.offset or record.value is None):
                continue
            if self.is_compacted and record.offset in self.superseded:
                continue  # compacted away before its successor was truncated
            if self.is_compacted and self._is_of_transaction(record.offset):
                continue
            raise Lost(f"a reader of [{start}, {end}) did not get {record}, but {sorted(there)}")

    def _is_of_transaction(self, offset: int) -> bool:
        return any(
            batch.first_offset <= offset <= batch.last_offset
            and (batch.is_transactional or batch.ends is not None)
            for batch in self.batches
        )

    # Checks after a crash

    def judge(self, log: Log) -> list[Record]:
        """All records of the log; raises Lost unless it keeps every promise."""
        found = everything(log)
        where = f"{log.directory} [{log.log_start_offset}, {log.log_end_offset})"
        self._judge_start(log, where)
        self._judge_records(found, log, where)
        self._judge_holes(found, log, where)
        if self.is_compacted:
            self._judge_keys(found, log.log_start_offset, where)
        else:
            self._judge_transactions(found, log, where)
        return found

    def judge_retries(self, log: Log, found: list[Record]) -> None:
        """Raises Lost unless the last batch of each producer is recognised when it is sent again."""
        there = {record.offset for record in found}
        for sent in self.sent.values():
            last = _ended(sent, log.log_end_offset)[-1:]
            if last and last[0].batch.first_offset in there:  # otherwise compaction has emptied it
                self.judge_retry(log, last[0])

    def judge_retry(self, log: Log, sent: Sent) -> None:
        """A batch that is sent again must not be written again."""
        end = log.log_end_offset
        info = log.append_as_leader(sent.data, leader_epoch=0)
        if (info.first_offset, info.last_offset) != (sent.batch.first_offset, sent.batch.last_offset):
            raise Lost(f"{log.directory}: {sent.batch} was appended again at {info.first_offset}")
        if log.log_end_offset != end:
            raise Lost(f"{log.directory}: a batch that was sent again moved the end to {log.log_end_offset}")

    def _judge_start(self, log: Log, where: str) -> None:
        # With replicas, as in Kafka, rolling an empty segment removes its name for a moment, which may be the
        # only trace of the log's start. No record comes back then, and the leader knows the start.
        is_told_by_others = self.has_replicas and log.log_start_offset == log.log_end_offset
        if log.log_start_offset < self.kept_start and not is_told_by_others:
            raise Lost(f"{where}: records below {self.kept_start} were deleted for good, and are back")
        limit = max(self.start_limit, self.start)
        if log.log_start_offset > limit:
            raise Lost(f"{where}: the start was never moved above {limit}")

    def _judge_records(self, found: list[Record], log: Log, where: str) -> None:
        known = {record.offset: record for record in self.records()}
        for record in found:
            if known.get(record.offset) == record:
                continue
            if record.value in self.truncated:
                raise Lost(f"{where}: the record at {record.offset} was truncated, and is back")
            raise Lost(f"{where}: {record} was never appended; {known.get(record.offset)} was")
        offsets = [record.offset for record in found]
        if offsets != sorted(set(offsets)):
            raise Lost(f"{where}: offsets are not in order, each once: {offsets}")
        if log.log_end_offset > max(self.end, *(offset + 1 for offset in [*known, -1])):
            raise Lost(f"{where}: the log never ended behind {self.end}")

    def _judge_holes(self, found: list[Record], log: Log, where: str) -> None:
        there = {record.offset for record in found}
        for batch in [*self.batches, *self.leaving]:
            for record in batch.records:
                if record.offset < log.log_start_offset or record.offset in there:
                    continue
                if self._is_superseded(batch, record):
                    continue
                if batch.last_offset < self.flushed_end:
                    raise Lost(
                        f"{where}: {record.offset} was flushed (up to {self.flushed_end}), and is gone"
                    )
                if record.offset < log.log_end_offset and not self.has_replicas:
                    raise Lost(f"{where}: {record.offset} is missing, and the log goes on behind it")

    def _is_superseded(self, batch: ModelBatch, record: Record) -> bool:
        """Whether compaction may have removed it; its key is checked separately."""
        if not self.is_compacted:
            return False
        return (
            batch.ends is not None
            or batch.is_transactional
            or record.value is None
            or record.offset in self.superseded
            or any(other.key == record.key and other.offset > record.offset for other in self.records())
        )

    def _judge_keys(self, found: list[Record], start: int, where: str) -> None:
        """The newest record of each key is at least as new as the newest flushed one."""
        newest = {record.key: record for record in found}
        for key, versions in self._versions().items():
            flushed = [record for record in versions if start <= record.offset < self.flushed_end]
            there = newest.get(key)
            if not flushed:
                continue
            if there is None and not any(r.value is None for r in versions if r.offset >= flushed[-1].offset):
                raise Lost(f"{where}: key {key!r} was flushed at {flushed[-1].offset}, and is gone")
            if there is not None and there.offset < flushed[-1].offset:
                words = "deleted" if flushed[-1].value is None else "replaced"
                raise Lost(
                    f"{where}: key {key!r} was {words} at {flushed[-1].offset}; {there.offset} is back"
                )

    def _versions(self) -> dict[bytes | None, list[Record]]:
        versions: dict[bytes | None, list[Record]] = {}
        for batch in self.batches:
            if batch.ends is None and not batch.is_transactional:
                for record in batch.records:
                    if record.offset in self.superseded:
                        continue
                    versions.setdefault(record.key, []).append(record)
        return versions

    def _judge_transactions(self, found: list[Record], log: Log, where: str) -> None:
        """The deleted part of a transaction may be known from a snapshot, or not."""
        there = {record.offset for record in found}
        expected = []
        for first in (0, log.log_start_offset):
            model = LogModel()
            for batch in [*self.batches, *self.leaving]:
                if batch.last_offset in there or first <= batch.last_offset < log.log_start_offset:
                    model.append(batch)
            model.start, model.end = log.log_start_offset, log.log_end_offset
            expected.append([record for record in model.committed() if record.offset in there])
        if committed(log) not in expected:
            raise Lost(f"{where}: readers of committed records get {committed(log)}, not {expected[0]}")


def everything(log: Log, start: int | None = None, fetch_size: int = FETCH_SIZE) -> list[Record]:
    """All records from an offset on, including markers, also after batches that compaction has emptied."""
    offset = log.log_start_offset if start is None else start
    found: list[Record] = []
    while True:
        data = log.read(offset, fetch_size, isolation=Isolation.LOG_END).records
        last = offset - 1
        for batch in read_batches(data):
            found += [record for record in batch if record.offset >= offset]
            last = batch.header.base_offset + batch.header.last_offset_delta
        if last < offset:
            return found
        offset = last + 1


def _values(batches: list[ModelBatch]) -> set[bytes | None]:
    """The identity of these records; a tombstone has no value that could identify it."""
    return {
        record.value
        for batch in batches
        for record in batch.records
        if record.value is not None and batch.ends is None
    }


def _ended(sent: list[Sent], offset: int) -> list[Sent]:
    """The batches of a producer that end below an offset."""
    return [one for one in sent if one.batch.last_offset < offset]
