"""A disk that fails or loses its power at any step of `erase`: nothing else is lost, and then all is gone.

The directory has a log of plain batches and one with transactions, and copies of their segments in every
other place where records are kept: in quarantine, readable and torn, in files and directories that wait for
their deletion, in a directory that was set aside, in what a failed cleaner has left. All of it deep, a seeded
twentieth in ci.
"""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import pytest

from stratalog.directory.known_topics import TopicSources
from stratalog.directory.session import Unclean
from stratalog.errors import CorruptRecordError, StratalogError
from stratalog.files.names import ERASURES, TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.log.cleaning.erase_audit import Audit
from stratalog.log.cleaning.erase_selection import Selection
from stratalog.log.log import Log
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.operations.erase.erase_report import ErasureReport
from stratalog.operations.erase.erasure import Erasure
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType
from stratalog.records.reader import read_batches
from tests import profile
from tests.log.cleaning.dirty import records_of
from tests.log.model import NOW, append_marker
from tests.manager.sweeping import committed
from tests.manager.test_manager_crashes import NoLock
from tests.operations.crashing import manager_on

ROOT, MARKER = "/data", "/data/.kafka_cleanshutdown"
PLAIN, MIXED = (TopicPartition("compacted", number) for number in range(2))
STATES_OF_A_STEP = 4
LEAST_STATES = 1800  # and two refusals for each of 704 steps; `retain` and `compact` have 1,336 states more
PART = {profile.DEEP: 1, profile.CI: 20, profile.QUICK: 40}[profile.current()]
SECRET = b"a"  # the key that is erased


@dataclass(frozen=True)
class Seen:
    """What a log shows to those who use it."""

    records: list[tuple[int, bytes | None]]
    committed: list[bytes | None]
    last_stable_offset: int
    log_end_offset: int
    sequences: dict[int, int]


def keyed(log: Log, *keys: bytes, codec: Codec = Codec.NONE) -> None:
    """A batch with a record for each key; its value tells both."""
    first = log.log_end_offset
    records = [Record(i, NOW, key, value_of(key, first + i)) for i, key in enumerate(keys)]
    log.append_as_leader(build_batch(records, BatchOptions(codec=codec)), leader_epoch=0)


def produced(log: Log, producer_id: int, sequence: int, *keys: bytes, transactional: bool = True) -> None:
    first = log.log_end_offset
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=transactional
    )
    records = [Record(i, NOW, key, value_of(key, first + i)) for i, key in enumerate(keys)]
    log.append_as_leader(build_batch(records, options), leader_epoch=0)


def value_of(key: bytes, offset: int) -> bytes:
    return b"value of %s at %04d" % (key, offset)


@cache
def begun() -> dict[str, bytes]:
    """The directory, shut down cleanly."""
    disk = SimulatedDisk(lambda: NOW)
    disk.make_directories(ROOT)
    manager = manager_on(disk)
    manager.startup()
    plain = manager.get_or_create_log(PLAIN, is_new=True)
    for number in range(4):
        keyed(plain, b"a", b"b", codec=list(Codec)[number])
        keyed(plain, b"c")
        plain.roll()
    keyed(plain, b"a")
    mixed = manager.get_or_create_log(MIXED, is_new=True)
    produced(mixed, 1, 0, b"a", b"b")
    produced(mixed, 2, 0, b"a", b"b")
    mixed.roll()
    append_marker(mixed, 1, ControlType.COMMIT)
    append_marker(mixed, 2, ControlType.ABORT)
    produced(mixed, 4, 0, b"b", b"a", transactional=False)
    produced(mixed, 3, 0, b"a")
    for log in (plain, mixed):
        log.update_high_watermark(log.log_end_offset)
    manager.shutdown(broker_epoch=3)

    quarantine = Quarantine(disk, ROOT, clock=lambda: NOW)
    first = f"{0:020d}.log"
    path = f"{ROOT}/{PLAIN}/{first}"
    for size in (disk.size(path), disk.size(path) - 3):
        quarantine.keep_range(path, partition=str(PLAIN), file=first, position=0, size=size, reason="cut off")
    data = disk.read_at(path, disk.size(path), 0)
    for copy in (
        f"{PLAIN}/{first}.deleted",
        f"{PLAIN}.{'0' * 32}-delete/{first}",
        f"{PLAIN}.{'1' * 32}-stray/{first}",
    ):
        disk.make_directories(f"{ROOT}/{copy.partition('/')[0]}")
        disk.append(f"{ROOT}/{copy}", data)
    # Leftovers of a cleaner that failed before its broker stopped cleanly.
    cleaned = f"{ROOT}/{PLAIN}/{3:020d}.log"
    disk.append(f"{cleaned}.cleaned", disk.read_at(cleaned, disk.size(cleaned), 0))
    return disk.contents()


EXPECTED = {
    PLAIN: Seen(
        records=[
            (offset, value_of(key, offset))
            for segment in range(4)
            for offset, key in ((3 * segment + 1, b"b"), (3 * segment + 2, b"c"))
        ],
        committed=[
            value_of(key, offset)
            for segment in range(4)
            for offset, key in ((3 * segment + 1, b"b"), (3 * segment + 2, b"c"))
        ],
        last_stable_offset=13,
        log_end_offset=13,
        sequences={},
    ),
    MIXED: Seen(
        records=[(1, value_of(b"b", 1)), (3, value_of(b"b", 3)), (6, value_of(b"b", 6))],
        committed=[value_of(b"b", 1), value_of(b"b", 6)],
        last_stable_offset=8,
        log_end_offset=9,
        sequences={1: 1, 2: 1, 3: 0, 4: 1},
    ),
}


def start() -> SimulatedDisk:
    return SimulatedDisk.of(begun(), lambda: NOW)


def erase(disk: SimulatedDisk) -> ErasureReport:
    return Erasure(
        unclean=Unclean.RECOVER,
        directories=[ROOT],
        names=["compacted"],
        selection=Selection.of([SECRET]),
        sources=TopicSources(topic_settings=json.dumps({"compacted": {"segment.index.bytes": 240}})),
        disk=disk,
        clock=lambda: NOW,
        make_lock=NoLock,
    ).run()


def seen(log: Log) -> Seen:
    return Seen(
        records=[
            (record.offset, record.value) for record in records_of(log) if record.key in (b"a", b"b", b"c")
        ],
        committed=[record.value for record in committed(log)],
        last_stable_offset=log.last_stable_offset,
        log_end_offset=log.log_end_offset,
        sequences={entry.producer_id: entry.last_sequence for entry in log.producers.producers.values()},
    )


def files_with_the_secret(disk: SimulatedDisk) -> list[str]:
    return [name for name, data in disk.contents().items() if b"value of a" in b"".join(readings(data))]


def readings(data: bytes) -> Iterator[bytes]:
    """The bytes as they are, and of each batch in them as a reader sees them."""
    yield data
    with suppress(CorruptRecordError):
        for batch in read_batches(data):
            yield from (record.value or b"" for record in batch)


_checked: set[int] = set()


def check(disk: SimulatedDisk) -> None:
    """After another run the erased records are gone and all others are there; one more run changes nothing.

    Most steps only read, and leave what the one before them left: the same files are checked once.
    """
    found = state_of(disk)
    if found in _checked:
        return
    report = erase(disk)
    assert not report.is_failed, report
    assert files_with_the_secret(disk) == []
    before, state = disk.contents(), state_of(disk)
    if state not in _checked:
        assert not erase(disk).is_change
        assert disk.contents() == before
        told = [line.file for line in Audit(disk, ROOT).lines()]
        assert len([file for file in told if file.startswith(f"{PLAIN}/") and file.endswith(".log")]) == 5
        show(disk)
    _checked.update({found, state})


def state_of(disk: SimulatedDisk) -> int:
    return hash(tuple(sorted(disk.contents().items())))


def show(disk: SimulatedDisk) -> None:
    manager = manager_on(disk)
    manager.startup()
    assert all(directory.recovered is None for directory in manager.directories)
    assert {log.topic_partition: seen(log) for log in manager.all_logs()} == EXPECTED
    manager.shutdown()


def points() -> Iterator[tuple[int, SimulatedDisk]]:
    disk = start()
    erase(disk)
    count = disk.steps
    for step in sorted(random.Random("erase").sample(range(1, count + 1), -(-count // PART))):
        yield step, start()


def test_what_is_to_be_erased_is_everywhere_before() -> None:
    places = files_with_the_secret(start())

    assert len([name for name in places if "quarantine" in name]) == 2
    assert len([name for name in places if name.endswith(".deleted")]) == 1
    assert len([name for name in places if "-delete/" in name or "-stray/" in name]) == 2
    assert len([name for name in places if name.endswith(".cleaned")]) == 1
    assert len([name for name in places if f"/{PLAIN}/" in name or f"/{MIXED}/" in name]) == 9


def test_without_a_failure_everything_is_as_it_should_be() -> None:
    disk = start()

    report = erase(disk)

    assert not report.is_failed
    assert json.loads(disk.contents()[MARKER])["brokerEpoch"] == 3
    assert f"{ROOT}/{ERASURES}" in disk.contents()
    check(disk)


def test_a_power_cut_at_any_step_loses_nothing_else_and_the_next_run_finishes() -> None:
    count = 0
    for step, disk in points():
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            erase(disk)
        for found in disk.crash(STATES_OF_A_STEP):
            check(found)
            count += 1
    if profile.current() == profile.DEEP:
        assert count >= LEAST_STATES


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_refusal_at_any_step_loses_nothing_else_and_the_next_run_finishes(number: int) -> None:
    for step, disk in points():
        disk.fail_at(step, number)
        with suppress(StratalogError):
            erase(disk)
        check(disk)


def test_a_broker_that_starts_in_between_has_every_record_that_stays() -> None:
    """As a manager that recovers what it finds; the erasing goes on when it has stopped."""
    for step, disk in points():
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            erase(disk)
        for found in disk.crash(1):
            manager = manager_on(found)
            manager.startup()
            for log in manager.all_logs():
                now, expected = seen(log), EXPECTED[log.topic_partition]
                assert set(now.records) >= set(expected.records)
                assert now.log_end_offset == expected.log_end_offset
                assert now.last_stable_offset == expected.last_stable_offset
                assert now.sequences == expected.sequences
            manager.shutdown()
            check(found)
