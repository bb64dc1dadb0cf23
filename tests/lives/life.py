"""A life: what one program does to its logs, generated from a seed, on a disk that may crash at any step.

The program appends, also as an idempotent producer that sends a batch twice and in transactions, rolls,
flushes, deletes records, truncates, reads, closes and opens again; `node.py` and `lone.py` add what only a
`LogManager` or a lone log can do. Some operations are interrupted by another one: a second thread runs it
while the first is paused at one of its disk calls, as the system may pause a thread anywhere.

`at_crash` is called before some of the steps that change the disk, with the books as they are at that moment.
Everything follows from the seed.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import ClassVar

from stratalog.errors import LogClosedError, LogMovedError, OffsetOutOfRangeError
from stratalog.files.entries import Path
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.control import ControlType, EndTxnMarker
from tests.lives.book import Book, Lost, everything
from tests.log.model import ManualClock, ManualScheduler, ModelBatch, append_marker

KEYS = [b"k%d" % number for number in range(5)]
CHANGING = ("write", "append", "create", "truncate", "rename", "delete", "sync", "remove")
LENGTH = 20, 60  # operations of a life
HELD_UP_S = 0.2  # without a step of the other thread, which then waits for a lock of the paused one
STUCK_S = 120

AtCrash = Callable[["Life"], None]


class Life(ABC):
    """One life; `books` has the promises to its program, `doing` the current operations."""

    operations: ClassVar[dict[str, int]]  # each operation, and how often
    interruptions: ClassVar[dict[str, tuple[str, ...]]]  # which operations may interrupt which
    held_up_by: ClassVar = {"read": 8, "move": 60}  # disk calls, at most, before another thread runs
    steps_between: ClassVar = 30  # changes of the disk, on average, from one crash to the next
    large: ClassVar = 0.06  # how many records are larger than a sector

    def __init__(self, seed: int, at_crash: AtCrash) -> None:
        self.seed = seed
        self.doing: list[str] = []
        self.done: list[str] = []
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.random = random.Random(seed)
        self.settings = self.draw_settings()
        self.books: dict[TopicPartition, Book] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.disk = SimulatedDisk(self.clock)
        self._at_crash = at_crash
        self._crash_random = random.Random(seed + 1)
        self._steps_left = self._crash_random.randint(1, 2 * self.steps_between)
        self._serial = count()
        self._producer_ids = count()
        self._producers: dict[tuple[TopicPartition, bool, int], tuple[int, int]] = {}
        self._interruption: tuple[int, Callable[[], None]] | None = None
        self._held_up: list[tuple[threading.Thread, list[BaseException]]] = []
        self._progress = 0
        self._is_judging = self._are_both_under_way = False

    # The course of a life

    def run(self) -> None:
        """The whole life, from the first start to the last shutdown."""
        try:
            self.begin()
            for _ in range(self.random.randint(*LENGTH)):
                key = self.random.choice(list(self.books))
                name = self.random.choices([*self.operations], [*self.operations.values()])[0]
                inner = self.interruptions.get(name)
                if inner is not None and self.random.random() < 0.7:
                    self._interrupt(self.random.choice(inner), key, self.held_up_by.get(name, 20))
                self.do(name, key)
                self._join()
            self.do("reopen", next(iter(self.books)))
        except BaseException as error:
            error.add_note(f"{type(self).__name__} {self.seed}, {next(iter(self.settings.values()))}")
            error.add_note(f"done: {', '.join(self.done)}; doing: {', '.join(self.doing)}")
            raise
        finally:
            self.disk.before_step = None
            self.let_go()

    def do(self, name: str, key: TopicPartition) -> None:
        """One operation."""
        words = f"{name} {key.topic}"
        self.doing.append(words)
        try:
            getattr(self, f"do_{name}")(key)
        except LogMovedError:
            self.doing.remove(words)
            raise
        self.doing.remove(words)
        self.done.append(words)

    def watch(self) -> None:
        """From here on the disk may crash at every step."""
        self.disk.before_step = self._before_step

    @abstractmethod
    def draw_settings(self) -> dict[TopicPartition, dict[str, int | str]]:
        """The settings of each topic."""

    @abstractmethod
    def begin(self) -> None:
        """Make the logs, and open them."""

    @abstractmethod
    def let_go(self) -> None:
        """End the process, in whatever state it is."""

    @abstractmethod
    def opened(
        self, disk: SimulatedDisk, *, shut_down: bool
    ) -> AbstractContextManager[dict[TopicPartition, Log]]:
        """The logs that another process opens on a disk after a crash; closed cleanly, or dropped."""

    # Steps

    def _before_step(self, action: str, path: Path) -> None:
        del path
        self._progress += 1
        if action.startswith(CHANGING):
            self._steps_left -= 1
            if self._steps_left <= 0 and not self._are_both_under_way:
                self._steps_left = self._crash_random.randint(1, 2 * self.steps_between)
                self._is_judging = True
                self._at_crash(self)
                self._is_judging = False
        elif threading.current_thread() is threading.main_thread():
            self._hold_up()

    def _interrupt(self, name: str, key: TopicPartition, most: int) -> None:
        """Let another thread do this during one of the next disk calls."""
        self._interruption = self.random.randint(0, most), lambda: self.do(name, key)

    def _hold_up(self) -> None:
        if self._interruption is None:
            return
        steps, operation = self._interruption
        if steps > 0:
            self._interruption = steps - 1, operation
            return
        self._interruption = None
        failures: list[BaseException] = []

        def run() -> None:
            try:
                operation()
            except LogMovedError:
                pass  # a handle from before a move
            except BaseException as error:  # raised again in the thread of the test
                failures.append(error)

        other = threading.Thread(target=run, daemon=True)
        other.start()
        self._held_up.append((other, failures))
        while True:
            before = self._progress
            other.join(HELD_UP_S)
            if not other.is_alive():
                return
            if self._progress == before and not self._is_judging:
                # The other thread waits for a lock of this one, and gets it when this one continues. Until it
                # is done, books and disk may be from different moments.
                self._are_both_under_way = True
                return

    def _join(self) -> None:
        self._interruption = None
        while self._held_up:
            other, failures = self._held_up.pop()
            other.join(STUCK_S)
            if other.is_alive():
                raise Lost("two operations wait for each other")
            if failures:
                raise failures[0]
        self._are_both_under_way = False

    # Appends

    def do_append(self, key: TopicPartition) -> None:
        self._append(key, self._records(key), -1)

    def do_produce(self, key: TopicPartition, *, transactional: bool = False) -> None:
        """The next batch of an idempotent producer, or of one that is in a transaction."""
        role = key, transactional, self.random.randint(0, 2)
        producer_id, sequence = self._producers.get(role) or (next(self._producer_ids), 0)
        records = self._records(key)
        if self._append(key, records, producer_id, sequence, transactional=transactional):
            self._producers[role] = producer_id, sequence + len(records)

    def do_transact(self, key: TopicPartition) -> None:
        self.do_produce(key, transactional=True)

    def do_end(self, key: TopicPartition) -> None:
        """End a transaction that is open."""
        book = self.books[key]
        ends = {batch.producer_id for batch in book.batches if batch.ends is not None}
        open_ids = [
            batch.producer_id
            for batch in book.batches
            if batch.is_transactional and batch.producer_id not in ends
        ]
        if not open_ids:
            return
        producer_id, kind = open_ids[0], self.random.choice([ControlType.ABORT, ControlType.COMMIT])
        marker = EndTxnMarker(kind, 0)
        record = Record(book.end, self.clock(), marker.key_bytes(), marker.value_bytes())
        with self._appending(book, ModelBatch(records=(record,), producer_id=producer_id, ends=kind)):
            offset = append_marker(self.logs[key], producer_id, kind, timestamp=self.clock())
            if offset != book.end:
                raise Lost(f"{key}: a marker at {offset}, though the log ended at {book.end}")
        # A producer has one transaction here, so a marker decides all of its records.
        self._producers = {role: found for role, found in self._producers.items() if found[0] != producer_id}

    def do_retry(self, key: TopicPartition) -> None:
        """A producer sends its last batch once more."""
        sent = self.books[key].sent
        if sent:
            last = self.random.choice(list(sent.values()))[-1]
            self.books[key].judge_retry(self.logs[key], last)

    def _append(
        self,
        key: TopicPartition,
        records: list[Record],
        producer_id: int,
        sequence: int = -1,
        *,
        transactional: bool = False,
    ) -> bool:
        book = self.books[key]
        data = build_batch(
            records,
            BatchOptions(
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
                is_transactional=transactional,
            ),
        )
        rows = tuple(record._replace(offset=book.end + number) for number, record in enumerate(records))
        batch = ModelBatch(records=rows, producer_id=producer_id, is_transactional=transactional)
        before = book.end
        is_retried = producer_id >= 0 and not transactional
        with self._appending(book, batch, data if is_retried else None):
            info = self.logs[key].append_as_leader(data, leader_epoch=0)
            if info.first_offset != before:
                raise Lost(f"{key}: appended at {info.first_offset}, though the log ended at {before}")
        return book.end > before

    @contextmanager
    def _appending(self, book: Book, batch: ModelBatch, data: bytes | None = None) -> Iterator[None]:
        book.begin_append(batch, data)
        try:
            yield
        except LogClosedError:
            if not self._is_in_between:
                raise
            book.refuse_append()  # by a handle from before a move
            return
        book.end_append()
        self.appended()

    def _records(self, key: TopicPartition) -> list[Record]:
        """Some records, each with a unique value; in a compacted log also tombstones."""
        draw = self.random
        found = []
        for number in range(1 if draw.random() < 0.6 else 2):
            value: bytes | None = b"%06d" % next(self._serial) + b"." * draw.choice([10, 60, 200])
            if number == 0 and draw.random() < self.large:
                value = (value or b"") + b"." * 500  # more than a sector, so that it can be torn
            if self.books[key].is_compacted and draw.random() < 0.25:
                value = None
            found.append(Record(number, self.clock(), draw.choice(KEYS), value))
        return found

    def appended(self) -> None:  # noqa: B027 (nothing, for most)
        """Called after an append."""

    @property
    def _is_in_between(self) -> bool:
        return threading.current_thread() is not threading.main_thread()

    # Other operations on a log

    def do_roll(self, key: TopicPartition) -> None:
        self.logs[key].roll()

    def do_flush(self, key: TopicPartition) -> None:
        book = self.books[key]
        end = book.end
        self.flush(key)
        book.flushed(end)

    def flush(self, key: TopicPartition) -> None:
        self.logs[key].flush()

    def do_truncate(self, key: TopicPartition) -> None:
        """Truncate, mostly to the end of a batch; or inside a batch, which is then removed."""
        book = self.books[key]
        ends = [batch.last_offset + 1 for batch in book.batches if batch.last_offset + 1 >= book.start]
        offset = self.random.choice([*ends, book.start])
        if self.random.random() < 0.2:
            offset = self.random.randint(book.start, book.end)
        if offset < book.end:
            self.cut_off(key, offset)

    def cut_off(self, key: TopicPartition, offset: int) -> None:
        """Truncate to this offset."""
        book = self.books[key]
        book.begin_truncate(offset)
        self.truncate(key, offset)
        book.end_truncate(offset)
        self.forget_producers(key)

    @abstractmethod
    def truncate(self, key: TopicPartition, offset: int) -> None: ...

    def do_delete(self, key: TopicPartition) -> None:
        """Delete records, which a log that is only compacted refuses."""
        book = self.books[key]
        if self.settings[key]["cleanup.policy"] == "compact":
            return
        # All records, as a queue does when they are processed; or up to any offset.
        offset = book.end if self.random.random() < 0.3 else self.random.randint(book.start, book.end)
        book.begin_delete(offset)
        self.delete(key, offset)
        book.end_delete(offset)

    @abstractmethod
    def delete(self, key: TopicPartition, offset: int) -> None: ...

    def do_tick(self, key: TopicPartition) -> None:
        """Let time pass, and run the background work."""
        del key
        self.clock.sleep(1500)
        self.scheduler.run_due()

    def do_read(self, key: TopicPartition) -> None:
        """Read a log from somewhere to its end, while another thread does something else to it."""
        log, book = self.logs[key], self.books[key]
        start, end, before = log.log_start_offset, log.log_end_offset, book.records()
        start = self.random.randint(start, end)
        try:
            found = everything(log, start, self.random.choice([200, 1000]))
        except OffsetOutOfRangeError:
            self._join()
            if book.start_limit <= start and not book.truncated:
                raise
            return
        except LogClosedError:
            if not self._is_in_between and "move" not in " ".join([*self.doing, *self.done[-1:]]):
                raise
            return
        if not self._is_in_between:
            self._join()
        book.judge_reading(found, before, start, end)

    def forget_producers(self, key: TopicPartition) -> None:
        """The producer state of the log was rebuilt: producers continue under new ids."""
        self._producers = {role: found for role, found in self._producers.items() if role[0] != key}
