"""`transactions`: what the coordinator knows about each transactional id, and what is open in the logs.

A transaction hangs if a log has it open and its coordinator does not: nobody will end it, and consumers with
read_committed never get past it. The rule is that of `kafka-transactions find-hanging`: the transaction had
no record for longer than the longest timeout, and the transactional id of its producer, if there is one,
does not list this partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from stratalog.clock import Clock, system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.options import listed
from stratalog.jobs.reading.plan import looking_at
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.manager import DEFAULT_PRODUCER_ID_EXPIRATION_MS
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, time_text
from stratalog.questions.choosing import COMMAND_WORDS, named_partitions, parts_elsewhere
from stratalog.records.internal_topics import TRANSACTION_STATE
from stratalog.scanning.values import milliseconds_of
from stratalog.scanning.words import python_words
from stratalog.tables import transactions

# Kafka: the default of find-hanging's --max-transaction-timeout, and of transaction.max.timeout.ms.
LONGEST_TIMEOUT_MS = 15 * 60 * 1000
ONGOING = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})

# In these states, not all markers of a transaction are written. Kafka: TransactionState
_OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
_NOT_JUDGED = ": whether a transaction hangs is not known."


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId:
    """What the coordinator knows of a transactional id; `partitions` are those of its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_at: int | None
    updated_at: int | None
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducer:
    """What a log knows of a producer. `first_offset` is where its open transaction begins, or None.

    `held_back` is the number of offsets from the beginning of its open transaction to the end of the log; 0
    without one.
    """

    partition: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    first_offset: int | None
    held_back: int = 0
    transactional_id: str | None = None
    is_hanging: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsReport(Report):
    """The transactional ids, and the producers of each partition that has any.

    `shows_all` lists producers without an open transaction too. `is_judged`: all coordinators are here, so it
    is known which transactions hang.
    """

    now: int
    ids: tuple[TransactionalId, ...]
    producers: tuple[PartitionProducer, ...]
    shows_all: bool = False
    is_judged: bool = True
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()  # partitions of open transactions, missing from these directories

    @property
    def opened(self) -> list[PartitionProducer]:
        return [each for each in self.producers if each.first_offset is not None]

    @property
    def hanging(self) -> list[PartitionProducer]:
        return [each for each in self.producers if each.is_hanging]

    @property
    def status(self) -> Status:
        if self.problems:
            return Status.FAILED
        return Status.FINDINGS if self.hanging else Status.FINE

    @property
    def verdict(self) -> str:
        if not self.opened:
            found = f"No transaction is open in the logs that are here{self._elsewhere()}."
        else:
            found = f"{counted(len(self.opened), 'transaction')} open in the logs"
            if not self.hanging:
                return f"{found}; {'none hangs' if self.is_judged else 'whether one hangs is not known'}."
            most = max(self.hanging, key=lambda each: each.held_back)
            which = "It is" if len(self.hanging) == 1 else "The one that holds back most is"
            found = (
                f"{found}, {len(self.hanging)} of them hanging. {which} in {most.partition}, and keeps "
                f"readers of committed records from {counted(most.held_back, 'offset')}; "
                f"`kafka-transactions abort --start-offset {most.first_offset}` on a running broker ends it."
            )
        if not self.problems:
            return found
        return f"{found} {counted(len(self.problems), 'partition')} could not be read."

    def _elsewhere(self) -> str:
        """Names the partitions of open transactions that these directories lack."""
        if not self.absent:
            return ""
        if len(self.absent) == 1:
            return f"; an open transaction includes {self.absent[0]}, which is not here"
        return f"; open transactions include {listed(self.absent)}, which are not here"

    def tables(self) -> list[Table]:
        return [
            _id_table(self.ids),
            _open_table(self.opened, self.now, is_judged=self.is_judged),
            *self._others(),
        ]

    def _others(self) -> list[Table]:
        return [_producer_table(self.producers)] if self.shows_all else []

    def words(self) -> Sequence[str]:
        return [*self.problems, *self.notes]

    def totals(self) -> dict[str, int]:
        return {
            "transactional_ids": len(self.ids),
            "producers": len(self.producers),
            "open": len(self.opened),
            "hanging": len(self.hanging),
        }

    def to_document(self) -> dict[str, object]:
        return {
            "now": self.now,
            "transactional_ids": [asdict(each) for each in self.ids],
            "open": [asdict(each) for each in self.opened],
            "producers": [asdict(each) for each in self.producers] if self.shows_all else None,
            "notes": list(self.notes),
            "problems": list(self.problems),
            "absent": list(self.absent),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsQuestion:
    """A request: the transactions of these topics and partitions, or of all."""

    directories: Sequence[str]
    names: Sequence[str] = ()
    shows_all: bool = False
    longest_timeout_ms: int = LONGEST_TIMEOUT_MS
    clock: Clock = system_clock
    disk: DiskReader = field(default_factory=DiskReader)

    def run(self) -> TransactionsReport:
        """UsageError for a name that is not there."""
        with python_words(COMMAND_WORDS):
            there = named_partitions(self.disk, self.directories, ())
            wanted = named_partitions(self.disk, self.directories, self.names)
        now, problems, found = self.clock(), list[str](), list[PartitionProducer]()
        ids, note = self._ids(there)
        for partition in wanted:
            try:
                found += self._producers(partition, now)
            except (CorruptRecordError, CorruptIndexError, DiskError) as error:
                problems.append(f"{partition.topic_partition}: {error}")
        return TransactionsReport(
            now=now,
            ids=tuple(ids),
            producers=tuple(self._judged(found, ids, now, may_hang=note is None)),
            shows_all=self.shows_all,
            notes=() if note is None else (note,),
            is_judged=note is None,
            problems=tuple(problems),
            absent=tuple(
                sorted(
                    {name for each in ids if each.state in _OPEN_STATES for name in each.partitions}
                    - {str(each.topic_partition) for each in there}
                )
            ),
        )

    def _ids(self, there: Sequence[FoundPartition]) -> tuple[list[TransactionalId], str | None]:
        """What the coordinators of these directories know, and a note if part of their topic is elsewhere."""
        numbers = [
            each.topic_partition.partition
            for each in there
            if each.topic_partition.topic == TRANSACTION_STATE
        ]
        if not numbers:
            return [], f"{TRANSACTION_STATE} is not here{_NOT_JUDGED}"
        found = [
            _transactional_id(row) for row in transactions(list(self.directories)).to_table().to_pylist()
        ]
        elsewhere = parts_elsewhere(self.disk, self.directories, TRANSACTION_STATE, numbers)
        note = None if elsewhere is None else elsewhere + _NOT_JUDGED
        return sorted(found, key=lambda each: each.transactional_id), note

    def _producers(self, found: FoundPartition, now: int) -> Iterator[PartitionProducer]:
        entries, end = looking_at(
            self.disk, self.clock, found, lambda view: (view.producers(), view.log_end_offset)
        )
        self.disk.release(found.directory)
        for entry in entries:
            first = entry.current_txn_first_offset
            if first is not None or now - entry.last_timestamp < DEFAULT_PRODUCER_ID_EXPIRATION_MS:
                yield _producer(str(found.topic_partition), entry, 0 if first is None else end - first)

    def _judged(
        self, found: Sequence[PartitionProducer], ids: Sequence[TransactionalId], now: int, *, may_hang: bool
    ) -> Iterator[PartitionProducer]:
        """The same producers, with their transactional ids, and whether a transaction hangs."""
        known = {each.producer_id: each for each in ids}
        for each in found:
            owner = known.get(each.producer_id)
            is_late = now - each.last_timestamp > self.longest_timeout_ms
            is_orphan = owner is None or each.partition not in owner.partitions
            yield PartitionProducer(
                **{
                    **asdict(each),
                    "transactional_id": None if owner is None else owner.transactional_id,
                    "is_hanging": may_hang and each.first_offset is not None and is_late and is_orphan,
                }
            )


def _producer(partition: str, entry: ProducerStateEntry, held_back: int) -> PartitionProducer:
    return PartitionProducer(
        partition=partition,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        coordinator_epoch=entry.coordinator_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        first_offset=entry.current_txn_first_offset,
        held_back=held_back,
    )


def _transactional_id(row: dict[str, Any]) -> TransactionalId:
    return TransactionalId(
        transactional_id=row["transactionalId"],
        producer_id=row["producerId"],
        producer_epoch=row["producerEpoch"],
        state=row["status"],
        timeout_ms=row["timeoutMs"],
        started_at=milliseconds_of(row["startedAt"]),
        updated_at=milliseconds_of(row["updatedAt"]),
        partitions=tuple(
            f"{each['topic']}-{number}" for each in row["partitions"] or () for number in each["partitions"]
        ),
    )


def _id_table(found: Sequence[TransactionalId]) -> Table:
    return Table(
        title="Transactional ids",
        columns=["transactional id", ">producer", ">epoch", "state", ">timeout", "started", "partitions"],
        rows=[
            [
                each.transactional_id,
                str(each.producer_id),
                str(each.producer_epoch),
                each.state,
                f"{each.timeout_ms} ms",
                "-" if each.started_at is None else time_text(each.started_at),
                ", ".join(each.partitions) or "-",
            ]
            for each in found
        ],
    )


def _open_table(found: Sequence[PartitionProducer], now: int, *, is_judged: bool) -> Table:
    return Table(
        title="Open transactions",
        columns=[
            "!partition",
            ">first offset",
            ">holds back",
            ">producer",
            ">epoch",
            "transactional id",
            "last record",
            ">silent for",
            "hangs",
        ],
        rows=[
            [
                each.partition,
                str(each.first_offset),
                str(each.held_back),
                str(each.producer_id),
                str(each.producer_epoch),
                each.transactional_id or "-",
                time_text(each.last_timestamp),
                f"{(now - each.last_timestamp) // 1000} s",
                "yes" if each.is_hanging else "no" if is_judged else "not known",
            ]
            for each in found
        ],
    )


def _producer_table(found: Sequence[PartitionProducer]) -> Table:
    return Table(
        title="Producers",
        columns=[
            "!partition",
            ">producer",
            ">epoch",
            ">coordinator epoch",
            ">last sequence",
            "last record",
            ">first offset of its transaction",
        ],
        rows=[
            [
                each.partition,
                str(each.producer_id),
                str(each.producer_epoch),
                str(each.coordinator_epoch),
                str(each.last_sequence),
                time_text(each.last_timestamp),
                "-" if each.first_offset is None else str(each.first_offset),
            ]
            for each in found
        ],
    )
