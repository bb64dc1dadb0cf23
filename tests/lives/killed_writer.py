"""The programs that are killed: a writer of three topics with a cleaner, and a reader.

Both record their steps in a journal (`acknowledged.py`), with one `write` for each line, so that a line is
there or not. The writer opens two log directories, reports what it found in them, and sends again what its
predecessor may not have got an answer to. Then it works until it is killed: threads append; another one
flushes, rolls, truncates and deletes; retention and the cleaner run as in any log manager; logs are moved if
the plan says so.
"""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stratalog.errors import (
    OffsetOutOfRangeError,
    StratalogError,
)
from stratalog.files.names import CLEAN_SHUTDOWN
from stratalog.log.log import Log
from stratalog.log.origin import AppendOrigin
from stratalog.log.scheduler import BackgroundScheduler, ScheduledTask
from stratalog.manager.manager import LogManager
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.reader import read_batches
from tests.lives.acknowledged import Acknowledged
from tests.lives.journal import LOG_END, Journal, crc_of, facts_of, state_of
from tests.lives.killed_plan import (
    FAR,
    LEDGER,
    LONGEST_S,
    OPEN,
    POLICIES,
    QUEUE,
    TRADES,
    Plan,
    log_of,
    manager_of,
    partition_of,
)
from tests.lives.killing_disk import KillingDisk
from tests.lives.known import Attempt

_KEYS_COUNT = 12


# What is counted, by the words of the log.
_DONE = [
    ("stratalog.manager.cleaner", re.compile("is clean up to"), "cleanings"),
    ("stratalog.log.appender", re.compile("is rolled"), "rolls"),
    ("stratalog.log.deletion", re.compile("are deleted: by retention"), "deletions by retention"),
]


class _Counting(logging.Handler):
    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        if record.levelno >= logging.ERROR:
            self._journal.note("error", words)
        for name, pattern, kind in _DONE:
            if record.name == name and pattern.search(words):
                self._journal.note("did", kind)


class HeldScheduler(BackgroundScheduler):
    """Runs nothing before `let_go`, so that the files can be inspected unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[tuple[str, ScheduledTask, int]] | None = []
        self._hold = threading.Lock()

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:
        with self._hold:
            if self._held is not None:
                self._held.append((name, task, delay_ms))
                return
        super().schedule(name, task, delay_ms)

    def let_go(self) -> None:
        with self._hold:
            held, self._held = self._held, None
        for name, task, delay_ms in held or []:
            super().schedule(name, task, delay_ms)


def write(plan: Plan, known: Acknowledged, tell: Callable[[bytes], object]) -> None:
    """Live until killed. `known` is what the parent knows about earlier lives; it gets OPEN and FAR."""
    journal = Journal(plan.journal, lambda number: tell(FAR) if number == plan.lines else None)
    logging.getLogger("stratalog").addHandler(_Counting(journal))
    logging.getLogger("stratalog").setLevel(logging.DEBUG)
    try:
        disk, scheduler = KillingDisk(plan.trap), HeldScheduler()
        manager = manager_of(plan, disk, scheduler)
        manager.startup()
        for topic in POLICIES:
            manager.get_or_create_log(partition_of(topic), is_new=True)
        for topic in POLICIES:
            facts = facts_of(log_of(manager, topic))
            journal.note("state", topic, *facts)
            known.compare(topic, state_of(facts))  # in this process's copy, to find what must be sent again
        scheduler.let_go()
        journal.note("opened")
        tell(OPEN)
        if plan.is_last:
            manager.shutdown()
            scheduler.close()
            return
        _Life(plan, journal, manager, disk, known).run()
    except BaseException:  # any error must reach the judge
        journal.note("error", traceback.format_exc())


def warm(directory: Path) -> None:
    """Compile or load every kernel in this process, for its forks; no thread is left."""
    directories = [str(directory / "one"), str(directory / "two")]
    plan = Plan(number=0, seed=0, directories=directories, journal=str(directory / "journal"))
    disk = KillingDisk(None)
    with manager_of(plan, disk, HeldScheduler()) as manager:
        life = _Life(plan, Journal(plan.journal), manager, disk, Acknowledged(POLICIES))
        for topic in POLICIES:
            manager.get_or_create_log(partition_of(topic), is_new=True, directory=directories[0])
            appender = _Appender(life, topic, topic, is_idempotent=True)
            for number in range(60):
                appender.append(f"{topic} {number // 10}" if topic == TRADES else None)
                if topic == TRADES and number % 10 == 9:
                    appender.end(f"{topic} {number // 10}", "commit")
            facts_of(log_of(manager, topic))
        manager.cleaner.clean_once(manager.cleaner.new_map())
    Path(directories[0], CLEAN_SHUTDOWN).unlink()
    with manager_of(plan, disk, HeldScheduler()):
        pass  # recovered, because it was not closed


class _Life:
    """The work of a writer between its start and its end."""

    def __init__(
        self, plan: Plan, journal: Journal, manager: LogManager, disk: KillingDisk, known: Acknowledged
    ) -> None:
        self.plan = plan
        self.journal = journal
        self.manager = manager
        self._disk = disk
        self._known = known
        # A thread holds its gate while it appends; a truncation holds all gates of the topic.
        self.gates: dict[str, list[threading.Lock]] = {topic: [] for topic in POLICIES}
        self.generations = dict.fromkeys(POLICIES, 0)
        self._producers = iter(range(plan.number * 1000, plan.number * 1000 + 1000))

    def run(self) -> None:
        self._finish_what_was_begun()
        work: list[Callable[[], object]] = [
            _Appender(self, LEDGER, "a", is_idempotent=True).run,
            _Appender(self, QUEUE, "b", is_idempotent=True).run,
            _Appender(self, QUEUE, "c", is_idempotent=False).run,
            _Appender(self, TRADES, "d", is_idempotent=True).run_transactions,
            self._keep,
        ]
        if self.plan.has_moves:
            work.append(self._move)
        for each in work:
            threading.Thread(target=self._guarded, args=(each,), daemon=True).start()
        time.sleep(LONGEST_S)

    def draw(self, name: str) -> random.Random:
        return random.Random(f"{self.plan.seed} {self.plan.number} {name}")

    def new_producer(self) -> int:
        return next(self._producers)

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException:  # any error must reach the judge
            self.journal.note("error", traceback.format_exc())
            os.kill(os.getpid(), signal.SIGKILL)

    # Append

    def append(self, attempt: Attempt, data: bytes) -> tuple[int, int]:
        """Append and record it. If the log was moved meanwhile, it refuses, and its successor is used."""
        self.journal.note(
            "try",
            attempt.topic,
            attempt.name,
            attempt.producer,
            attempt.sequence,
            attempt.transaction,
            len(data),
            attempt.records,
        )
        info = self.with_log(attempt.topic, lambda log: log.append_as_leader(data, leader_epoch=0))
        self.journal.note("ack", attempt.topic, attempt.name, info.first_offset, info.last_offset)
        return info.first_offset, info.last_offset

    def end(self, topic: str, name: str, producer: int, transaction: str, decision: str) -> None:
        """Write the marker of a transaction."""
        kind = ControlType.COMMIT if decision == "commit" else ControlType.ABORT
        marker = EndTxnMarker(kind, 0)
        data = build_batch(
            [Record(0, int(time.time() * 1000), marker.key_bytes(), marker.value_bytes())],
            BatchOptions(producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True),
        )
        self.journal.note("end", topic, name, producer, transaction, decision)
        info = self.with_log(
            topic,
            lambda log: log.append_as_leader(
                data, leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=1
            ),
        )
        self.journal.note("ack", topic, name, info.first_offset, info.last_offset)

    def with_log(self, topic: str, use: Callable[[Log], Any]) -> Any:
        """Do something to a log, or to its successor if it was moved meanwhile."""
        while True:
            log = log_of(self.manager, topic)
            try:
                return use(log)
            except StratalogError:
                if self.manager.get_log(partition_of(topic)) is log:
                    raise
                self.journal.note("did", "changes of a log that had moved")

    def _finish_what_was_begun(self) -> None:
        """Send each producer's last batch again, and end the transactions that are open."""
        draw = self.draw("finish")
        for topic in POLICIES:
            for attempt in [*self._known.topics[topic].last.values()]:
                self.append(attempt, _batch_of(attempt, Codec.NONE))
        for number, (name, transaction) in enumerate(self._known.transactions.items()):
            if not transaction.is_ended:
                decision = transaction.decision or draw.choice(["commit", "abort"])
                marker = f"{self.plan.number}.e.{number}"
                self.end(transaction.topic, marker, transaction.producer, name, decision)

    # Change

    def _keep(self) -> None:
        """Flush, roll, truncate and delete, in an order that the seed decides."""
        draw = self.draw("keep")
        while True:
            topic = draw.choice([*POLICIES])
            match draw.choice(["flush", "roll", "cut", "delete", "checkpoint", "wait", "wait"]):
                case "flush":
                    self.with_log(topic, lambda log: log.flush())
                    self.journal.note("did", "flushes")
                case "roll":
                    self.with_log(topic, lambda log: log.roll())
                case "cut" if topic != TRADES:
                    self._cut(topic, draw)
                case "delete" if topic != LEDGER:
                    self._delete(topic, draw)
                case "checkpoint":
                    self.manager.checkpoint_log_recovery_offsets()
                case _:
                    time.sleep(draw.random() / 50)

    def _cut(self, topic: str, draw: random.Random) -> None:
        for gate in self.gates[topic]:
            gate.acquire()
        back = draw.choice([1, 3, 10, 60, 200])
        # The files of a log that moves are deleted soon after that, so this may have to read its successor.
        offset = self.with_log(topic, lambda log: _batch_to_cut(log, back))
        if offset is not None:
            self.journal.note("cutting", topic, offset)
            with self._disk.doing("cutting"):
                self.with_log(topic, lambda _: self.manager.truncate_to({partition_of(topic): offset}))
            self.journal.note("cut", topic, offset)
            self.generations[topic] += 1
        for gate in self.gates[topic]:
            gate.release()

    def _delete(self, topic: str, draw: random.Random) -> None:
        for gate in self.gates[topic]:  # so that no truncation comes in between
            gate.acquire()
        log = log_of(self.manager, topic)
        start, end = log.log_start_offset, log.log_end_offset
        offset = start + draw.randrange(max(1, (end - start) // 2))
        self.journal.note("deleting", topic, offset)
        try:
            self.with_log(topic, lambda log: log.delete_records(offset))
        except OffsetOutOfRangeError:
            pass
        else:
            self.journal.note("deleted", topic, offset)
        for gate in self.gates[topic]:
            gate.release()

    def _move(self) -> None:
        draw = self.draw("move")
        while True:
            topic = draw.choice([*POLICIES])
            home = str(Path(log_of(self.manager, topic).directory).parent)
            (target,) = (path for path in self.plan.directories if path != home)
            self.journal.note("did", "moves begun")
            with self._disk.doing("moving"):
                self.manager.move_log(partition_of(topic), target)
            self.journal.note("did", "moves done")


class _Appender:
    """One thread that appends to one topic, batch after batch; each record has a unique number."""

    def __init__(self, life: _Life, topic: str, name: str, *, is_idempotent: bool) -> None:
        self._life, self._topic = life, topic
        self._thread = f"{life.plan.number}.{name}"
        self._draw = life.draw(name)
        self._is_idempotent = is_idempotent
        self._gate = threading.Lock()
        life.gates[topic].append(self._gate)
        self._number = 0
        self._generation = -1
        self._producer, self._sequence = -1, -1

    def run(self) -> None:
        while True:
            with self._gate:
                self.append(None)
            if self._draw.random() < 0.1:
                time.sleep(self._draw.random() / 300)

    def run_transactions(self) -> None:
        number = 0
        while True:
            transaction = f"{self._thread}.{number}"
            number += 1
            for _ in range(self._draw.randint(1, 5)):
                with self._gate:
                    self.append(transaction)
            decision = self._draw.choice(["commit", "commit", "abort"])
            with self._gate:
                self.end(transaction, decision)
            if self._draw.random() < 0.2:
                time.sleep(self._draw.random() / 300)

    def end(self, transaction: str, decision: str) -> None:
        self._life.end(self._topic, f"{transaction}.end", self._producer, transaction, decision)

    def append(self, transaction: str | None) -> None:
        draw = self._draw
        generation = self._life.generations[self._topic]
        if self._is_idempotent and generation != self._generation:
            # The end of this producer's sequence may have been cut off.
            self._generation, self._producer, self._sequence = generation, self._life.new_producer(), 0
        records: list[tuple[str, str | None, int | None]] = []
        for _ in range(draw.randint(1, 4)):
            identity = f"{self._thread}.{self._number}"
            self._number += 1
            key = None if self._topic == QUEUE else f"key {draw.randrange(_KEYS_COUNT)}"
            is_tombstone = key is not None and draw.random() < 0.2
            records.append((identity, key, None if is_tombstone else crc_of(_value_of(identity))))
        attempt = Attempt(
            name=f"{records[0][0]}.t",
            topic=self._topic,
            producer=self._producer,
            sequence=self._sequence,
            transaction=transaction,
            size=0,
            records=records,
        )
        self._life.append(attempt, _batch_of(attempt, draw.choice([Codec.NONE, Codec.NONE, Codec.LZ4])))
        if self._is_idempotent:
            self._sequence += len(records)


def _batch_of(attempt: Attempt, codec: Codec) -> bytes:
    """The bytes of an attempt, with the same records each time it is sent."""
    now = int(time.time() * 1000)
    records = [
        Record(
            index,
            now,
            None if key is None else key.encode(),
            None if crc is None else _value_of(identity),
            (("id", identity.encode()),),
        )
        for index, (identity, key, crc) in enumerate(attempt.records)
    ]
    if attempt.producer < 0:
        return build_batch(records, BatchOptions(codec=codec))
    options = BatchOptions(
        codec=codec,
        producer_id=attempt.producer,
        producer_epoch=0,
        base_sequence=attempt.sequence,
        is_transactional=attempt.transaction is not None,
    )
    return build_batch(records, options)


def _value_of(identity: str) -> bytes:
    draw = random.Random(identity)
    return identity.encode() + draw.randbytes(draw.randint(10, 120))


def _batch_to_cut(log: Log, back: int) -> int | None:
    """The start of the batch that is so many offsets before the end, or of the next one; None: no such."""
    start, end = log.log_start_offset, log.log_end_offset
    data = log.read(max(start, end - back), 1, isolation=LOG_END).records
    for batch in read_batches(data):
        offset = batch.facts.base_offset
        return offset if start < offset < end else None
    return None
