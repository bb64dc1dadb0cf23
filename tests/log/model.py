"""A log as a plain list of batches, to compare the real one with; and a clock and scheduler for tests.

The model knows nothing of segments, indexes or snapshots. The end of a transaction, the last stable offset
and lookups by time are computed from the list each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.log.origin import AppendOrigin
from stratalog.log.reading import Isolation
from stratalog.log.scheduler import ScheduledTask
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.reader import read_batches

NOW = 1_700_000_000_000
DIRECTORY = "/logs/orders-0"
ORDERS = TopicPartition("orders", 0)


class ManualClock:
    """A clock that stands still until a test sets it."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def sleep(self, ms: int) -> None:
        self.now += ms


class ManualScheduler:
    """Keeps tasks until a test runs those that are due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.tasks: list[tuple[int, str, ScheduledTask]] = []

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:
        self.tasks.append((self._clock() + delay_ms, name, task))

    def run_due(self) -> list[str]:
        """Run the tasks that are due, in their order; returns their names."""
        now = self._clock()
        due = [entry for entry in self.tasks if entry[0] <= now]
        self.tasks = [entry for entry in self.tasks if entry[0] > now]
        for _, _, task in due:
            task()
        return [name for _, name, _ in due]


class Machine:
    """A simulated disk, a clock and a scheduler, and the log that lives there."""

    def __init__(self, disk: Disk | None = None, directory: str = DIRECTORY, **settings: int | str) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        if disk is None:
            disk = simulated = SimulatedDisk(self.clock)
            simulated.make_directories(directory)
            simulated.sync_everything()
        self.disk = disk
        self.directory = directory
        self.config = LogConfig.of({key.replace("_", "."): value for key, value in settings.items()})

    def open(self, *, log_start_offset: int = 0, embedded: bool = True) -> Log:
        return load(
            disk=self.disk,
            clock=self.clock,
            scheduler=self.scheduler,
            directory=self.directory,
            topic_partition=ORDERS,
            config=self.config,
            log_start_offset=log_start_offset,
            high_watermark_follows_end=embedded,
        )

    def reopen(self, log: Log, *, embedded: bool = True) -> Log:
        """Close it and open it again, as a new process: scheduled tasks are dropped."""
        log.close()
        self.scheduler.tasks.clear()
        return self.open(log_start_offset=log.log_start_offset, embedded=embedded)

    def files(self, suffix: str = "") -> list[str]:
        return [
            entry.name for entry in self.disk.list_directory(self.directory) if entry.name.endswith(suffix)
        ]


def batch(
    *values: bytes | None,
    timestamp: int = NOW,
    key: bytes | None = None,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """A plain batch, a record for each value."""
    return build_batch(
        [Record(base_offset + i, timestamp, key, value) for i, value in enumerate(values)],
        BatchOptions(codec=codec, partition_leader_epoch=leader_epoch),
    )


def produced(
    producer_id: int,
    sequence: int,
    *values: bytes,
    epoch: int = 0,
    transactional: bool = False,
    timestamp: int = NOW,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """A batch of an idempotent or transactional producer."""
    return build_batch(
        [Record(base_offset + i, timestamp, None, value) for i, value in enumerate(values)],
        BatchOptions(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
            partition_leader_epoch=leader_epoch,
        ),
    )


def marker(
    producer_id: int,
    kind: ControlType,
    *,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = NOW,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """The end of a transaction, as its coordinator writes it."""
    end = EndTxnMarker(kind, coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, end.key_bytes(), end.value_bytes())],
        BatchOptions(
            producer_id=producer_id,
            producer_epoch=epoch,
            is_transactional=True,
            is_control=True,
            partition_leader_epoch=leader_epoch,
        ),
    )


def append_marker(
    log: Log, producer_id: int, kind: ControlType, *, leader_epoch: int = 0, **fields: int
) -> int:
    """Append a marker as a coordinator does; returns its offset."""
    data = marker(producer_id, kind, **fields)
    origin = AppendOrigin.COORDINATOR
    info = log.append_as_leader(data, leader_epoch=leader_epoch, origin=origin, transaction_version=1)
    return info.first_offset


def read_all(log: Log, start: int | None = None, isolation: Isolation = Isolation.LOG_END) -> list[Record]:
    """Every record from an offset on, fetch by fetch, markers included."""
    offset = log.log_start_offset if start is None else start
    found: list[Record] = []
    while True:
        data = log.read(offset, 4096, isolation=isolation).records
        records = [record for each in read_batches(data) for record in each if record.offset >= offset]
        if not records:
            return found
        found += records
        offset = records[-1].offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBatch:
    """One batch of the model; `ends` is set for a marker: whether it aborts."""

    records: tuple[Record, ...]
    producer_id: int = -1
    is_transactional: bool = False
    ends: ControlType | None = None

    @property
    def first_offset(self) -> int:
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset


@dataclass(slots=True)
class LogModel:
    """What should be in a log, by the simplest means."""

    start: int = 0
    end: int = 0
    batches: list[ModelBatch] = field(default_factory=list)

    def append(self, batch: ModelBatch) -> None:
        self.batches.append(batch)
        self.end = batch.last_offset + 1

    def truncate_to(self, offset: int) -> None:
        if offset >= self.end:
            return
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self.end = offset
        self.start = min(self.start, offset)

    def truncate_fully(self, offset: int) -> None:
        self.batches = []
        self.start = self.end = offset

    def reopen(self, active_base: int) -> None:
        """Called after a truncation inside a batch, which left an end that no file stores."""
        self.end = max([active_base, *(batch.last_offset + 1 for batch in self.batches)])
        if self.end < self.start:
            self.truncate_fully(self.start)

    def records(self, *, markers: bool) -> list[Record]:
        """What can be read, in order."""
        return [
            record
            for batch in self.batches
            for record in batch.records
            if record.offset >= self.start and (markers or batch.ends is None)
        ]

    def last_stable_offset(self) -> int:
        """The first record of a transaction that has no end yet, or the end."""
        open_since: dict[int, int] = {}
        for batch in self.batches:
            if batch.ends is not None:
                open_since.pop(batch.producer_id, None)
            elif batch.is_transactional:
                open_since.setdefault(batch.producer_id, batch.first_offset)
        return max(min([*open_since.values(), self.end]), self.start)

    def committed(self) -> list[Record]:
        """What a read_committed reader gets."""
        waiting: dict[int, list[Record]] = {}
        found: list[Record] = []
        for batch in self.batches:
            if batch.ends is ControlType.COMMIT:
                found += waiting.pop(batch.producer_id, [])
            elif batch.ends is ControlType.ABORT:
                waiting.pop(batch.producer_id, None)
            elif batch.is_transactional:
                waiting.setdefault(batch.producer_id, []).extend(batch.records)
            else:
                found += batch.records
        stable = self.last_stable_offset()
        return sorted(record for record in found if self.start <= record.offset < stable)

    def first_not_before(self, timestamp: int) -> Record | None:
        return next((r for r in self.records(markers=True) if r.timestamp >= timestamp), None)
