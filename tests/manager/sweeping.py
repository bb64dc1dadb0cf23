"""A small log directory in a bad state, stories about it, and checks of what must be found afterwards.

A log manager wrote the directory and was killed; then it was damaged: an incomplete batch, a flipped bit with
segments after it, a half-finished swap, temporary files. The content of a log is known from the list of what
was appended, never from a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.directory.clean_state import NOTE
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.recovery.result import DirectoryReport, Outcome
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.manager.manager import LogManager
from stratalog.records.build import Record
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.reader import read_batches
from tests.log.model import (
    NOW,
    LogModel,
    ManualClock,
    ManualScheduler,
    ModelBatch,
    append_marker,
    batch,
    produced,
    read_all,
)
from tests.manager.test_manager_crashes import NoLock

ROOT = "/data"
TORN, DAMAGED, SWAPPED = (TopicPartition("orders", number) for number in range(3))
SERVER = ServerConfig(
    ManagerConfig(num_recovery_threads_per_data_dir=1),
    LogConfig.of({"internal.segment.bytes": 260, "index.interval.bytes": 100, "segment.index.bytes": 240}),
    (),
)
IDEMPOTENT, COMMITTING, ABORTING, UNDECIDED = 1, 2, 3, 4


@dataclass
class Expected:
    """One log: everything that was ever appended to it, and how many of its batches were promised."""

    batches: list[ModelBatch] = field(default_factory=list)
    synced_count: int = 0
    sequences: dict[int, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def copy(self) -> Expected:
        return Expected([*self.batches], self.synced_count, {**self.sequences})


Told = dict[TopicPartition, Expected]


class Writer:
    """Appends to the list of what was appended, and then to a log."""

    def __init__(self, log: Log, expected: Expected) -> None:
        self.log = log
        self.expected = expected

    def plain(self, *values: bytes, epoch: int = 0) -> None:
        self._note(values)
        self.log.append_as_leader(batch(*values, timestamp=self._time), leader_epoch=epoch)

    def of(self, producer_id: int, *values: bytes, transactional: bool = False, epoch: int = 0) -> None:
        sequence = self.expected.sequences.get(producer_id, 0)
        self.expected.sequences[producer_id] = sequence + len(values)
        self._note(values, producer_id, is_transactional=transactional)
        data = produced(producer_id, sequence, *values, transactional=transactional, timestamp=self._time)
        self.log.append_as_leader(data, leader_epoch=epoch)

    def end(self, producer_id: int, kind: ControlType, epoch: int = 0) -> None:
        end = EndTxnMarker(kind, 0)
        time = NOW + self.expected.end
        record = Record(self.expected.end, time, end.key_bytes(), end.value_bytes())
        self.expected.batches.append(ModelBatch(records=(record,), producer_id=producer_id, ends=kind))
        append_marker(self.log, producer_id, kind, leader_epoch=epoch, timestamp=time)

    def flush(self) -> None:
        count = len(self.expected.batches)
        self.log.flush()
        self.expected.synced_count = count

    @property
    def _time(self) -> int:
        return self.expected.batches[-1].records[0].timestamp

    def _note(
        self, values: tuple[bytes, ...], producer_id: int = -1, *, is_transactional: bool = False
    ) -> None:
        first = self.expected.end
        rows = tuple(Record(first + i, NOW + first, None, value) for i, value in enumerate(values))
        self.expected.batches.append(
            ModelBatch(records=rows, producer_id=producer_id, is_transactional=is_transactional)
        )


def manager_on(disk: SimulatedDisk) -> LogManager:
    clock = ManualClock()
    return LogManager(
        [ROOT],
        server=SERVER,
        disk=disk,
        clock=clock,
        scheduler=ManualScheduler(clock),
        make_lock=NoLock,
        high_watermark_follows_end=True,
    )


def recover(disk: SimulatedDisk, *, scan_all: bool = False) -> DirectoryReport:
    (report,) = recover_directories(
        [ROOT],
        disk=disk,
        clock=ManualClock(),
        server=SERVER,
        options=RecoveryChoices(scan_all=scan_all, readers=1, user=0),
        make_lock=NoLock,
    ).directories
    return report


def killed(*, is_flushed: bool = True) -> tuple[SimulatedDisk, Told]:
    """What a killed manager leaves.

    Nothing is closed, the recovery points are old, and what was written after them is on the device only in
    part, or not at all.
    """
    disk = SimulatedDisk(ManualClock())
    disk.make_directories(ROOT)
    disk.sync_everything()
    told = {key: Expected() for key in (TORN, DAMAGED, SWAPPED)}
    manager = manager_on(disk)
    manager.startup()
    writers = [Writer(manager.get_or_create_log(key, is_new=True), told[key]) for key in told]
    for writer in writers:
        writer.of(IDEMPOTENT, b"a", b"b")
        writer.of(COMMITTING, b"c", transactional=True)
        writer.plain(b"d" * 30)
        if is_flushed:
            writer.flush()
    manager.checkpoint_log_recovery_offsets()
    for writer in writers:
        writer.of(ABORTING, b"e", transactional=True, epoch=1)
        writer.end(COMMITTING, ControlType.COMMIT, epoch=1)
        writer.of(UNDECIDED, b"f", transactional=True, epoch=1)
        writer.plain(b"g" * 40, b"h", epoch=2)
        writer.end(ABORTING, ControlType.ABORT, epoch=2)
        writer.of(IDEMPOTENT, b"i", epoch=2)
        writer.plain(b"j" * 30, epoch=3)
    return disk, told


@cache
def _killed() -> tuple[dict[str, bytes], Told]:
    disk, told = killed()
    return disk.contents(), told


@dataclass(frozen=True)
class Start:
    """Where a story begins: files, what is in them, and the bytes that a recovery must cut and keep."""

    files: dict[str, bytes]
    told: Told
    cuts: frozenset[bytes] = frozenset()

    def disk(self) -> tuple[SimulatedDisk, Told]:
        disk = SimulatedDisk.of(self.files, ManualClock())
        return disk, {key: expected.copy() for key, expected in self.told.items()}


@cache
def damaged() -> Start:
    """The killed manager's directory, with every damage that a recovery can repair."""
    files, told = dict(_killed()[0]), {key: each.copy() for key, each in _killed()[1].items()}
    torn = _logs(files, TORN)[-1]
    files[torn] += batch(b"never finished" * 3)[:-9]
    cuts = {batch(b"never finished" * 3)[:-9]}

    first, *behind = _logs(files, DAMAGED)[1:]
    offset = _offset(first)
    size = 12 + int.from_bytes(files[first][8:12], "big")
    raw = bytearray(files[first])
    raw[size + 70] ^= 1
    files[first] = bytes(raw)
    cuts |= {bytes(raw[size:]), *(files[name] for name in behind)}
    end = next(each.last_offset + 1 for each in told[DAMAGED].batches if each.last_offset >= offset)
    told[DAMAGED].batches = [each for each in told[DAMAGED].batches if each.last_offset < end]
    told[DAMAGED].sequences |= {IDEMPOTENT: 2, UNDECIDED: 0}

    # A cleaner has rewritten the first two segments as one, and has renamed half of the files.
    one, two = _logs(files, SWAPPED)[:2]
    swapped = one.removesuffix("log")
    files[f"{one}.swap"] = files[one] + files.pop(two)
    for suffix in ("index", "timeindex"):
        files[f"{swapped}{suffix}.swap"] = files[f"{swapped}{suffix}"]
        files[f"{two.removesuffix('log')}{suffix}.deleted"] = files.pop(f"{two.removesuffix('log')}{suffix}")
    files[f"{two}.cleaned"] = b"half of something"
    files[f"{ROOT}/{SWAPPED}/{999:020d}.index"] = b"of a log that is gone"
    for expected in told.values():
        expected.synced_count = len(expected.batches)
    return Start(files, told, frozenset(cuts))


@cache
def closed() -> Start:
    """The same, recovered and shut down cleanly: the start of a manager's story."""
    disk, told = damaged().disk()
    report = recover(disk)
    assert report.error is None
    return replace(damaged(), files=disk.contents(), told=told)


def live(disk: SimulatedDisk, told: Told) -> None:
    """Open, append, roll, flush, checkpoint, close; open and close once more."""
    manager = manager_on(disk)
    try:
        manager.startup()
        writers = {key: Writer(_log_of(manager, key), told[key]) for key in told}
        for writer in writers.values():
            writer.of(IDEMPOTENT, b"k", epoch=4)
            writer.of(UNDECIDED, b"l" * 60, transactional=True, epoch=4)
            writer.plain(b"m" * 50, epoch=4)
        writers[TORN].flush()
        manager.checkpoint_log_recovery_offsets()
        manager.checkpoint_high_watermarks()
        writers[DAMAGED].end(UNDECIDED, ControlType.ABORT, epoch=4)
        writers[DAMAGED].plain(b"n" * 90, epoch=5)
        writers[DAMAGED].log.roll()
        writers[SWAPPED].log.increment_log_start_offset(1)
        manager.checkpoint_log_start_offsets()
        manager.shutdown(broker_epoch=3)
        for expected in told.values():
            expected.synced_count = len(expected.batches)
        manager = manager_on(disk)
        manager.startup()
        manager.shutdown()
    finally:
        manager._let_go()  # the process ends in any case


_checked: set[int] = set()


def check(disk: SimulatedDisk, told: Told, cuts: frozenset[bytes] = frozenset()) -> None:
    """The disk loads, has everything that was promised and nothing else, and a second recovery changes
    nothing.

    Most results of a power cut are recovered to the same bytes: equal ones are checked once.
    """
    found = disk.contents()
    report = recover(disk)
    assert report.error is None, report.error
    before = disk.contents()
    assert before == found or report.outcome is Outcome.RECOVERED, "a clean one is left alone"
    known = tuple((each.synced_count, len(each.batches)) for each in told.values())
    state = hash((tuple(before.items()), known, cuts))
    if state in _checked:
        return
    again = recover(disk, scan_all=True)
    assert again.error is None, again.error
    assert not any(each.cuts or each.findings for each in again.partitions)
    if report.outcome is Outcome.CLEAN:
        # Snapshots that the next start removes may be there, and the note of a recovery that is over.
        assert _lasting(disk.contents()) == _lasting(before)
        before = disk.contents()
        recover(disk, scan_all=True)
    assert disk.contents() == before, "a second run changes nothing"
    manager = manager_on(disk)
    manager.startup()
    assert {log.topic_partition for log in manager.all_logs()} == set(told)
    for log in manager.all_logs():
        check_log(log, told[log.topic_partition])
    manager.shutdown()
    assert cuts <= kept_bytes(disk)
    _checked.add(state)


def _lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith((".snapshot", NOTE))}


def check_log(log: Log, expected: Expected) -> None:
    """A log's batches are those that were appended; only batches that were not promised may be missing.

    Not only the last ones: a new segment's name may outlive the end of the segment before it.
    """
    records = read_all(log)
    found = {record.offset for record in records}
    model = LogModel()
    for number, each in enumerate(expected.batches):
        if each.last_offset in found or number < expected.synced_count:
            model.append(each)
    assert model.end <= log.log_end_offset <= expected.end
    model.start, model.end = log.log_start_offset, log.log_end_offset
    assert records == model.records(markers=True)
    assert log.last_stable_offset == model.last_stable_offset()
    assert committed(log) == [record for record in model.committed() if record.offset in found]


def committed(log: Log) -> list[Record]:
    """What a read_committed consumer gets, by the rule of Kafka's consumers."""
    found: list[Record] = []
    offset = log.log_start_offset
    while True:
        read = log.read(offset, 1 << 20, isolation=Isolation.TXN_COMMITTED)
        assert read.aborted_transactions is not None
        aborted = sorted((txn.first_offset, txn.producer_id) for txn in read.aborted_transactions)
        leaving_out: set[int] = set()
        start = offset
        for each in read_batches(read.records):
            producer_id = each.header.producer_id
            while aborted and aborted[0][0] <= each.header.base_offset:
                leaving_out.add(aborted.pop(0)[1])
            records = [record for record in each if record.offset >= start]
            if each.is_control:
                leaving_out.discard(producer_id)
            elif not (each.is_transactional and producer_id in leaving_out):
                found += records
            offset = max(offset, each.header.base_offset + each.header.last_offset_delta + 1)
        if offset == start:
            return found


def kept_bytes(disk: SimulatedDisk) -> set[bytes]:
    """Everything in quarantine, as it is restored from there."""
    place, found = Quarantine(disk, ROOT), set()
    for entry in place.entries():
        disk.delete("/restored")
        place.restore(entry, "/restored")
        found.add(disk.contents()["/restored"])
    return found


def steps_of(start: Callable[[], Start], story: Callable[[SimulatedDisk, Told], object]) -> int:
    disk, told = start().disk()
    story(disk, told)
    return disk.steps


def _log_of(manager: LogManager, key: TopicPartition) -> Log:
    log = manager.get_log(key)
    assert log is not None
    return log


def _logs(files: dict[str, bytes], key: TopicPartition) -> list[str]:
    return sorted(name for name in files if name.startswith(f"{ROOT}/{key}/") and name.endswith(".log"))


def _offset(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])
