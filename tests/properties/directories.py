"""Damaged segments and whole partition directories, through views and through recovery.

If a recovery succeeds, the log must open, a second recovery must change nothing, and everything that is no
longer in the log must be in quarantine.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.directory.layout import classify
from stratalog.directory.open_log import open_log
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.api.consume import consume_columns
from stratalog.log.api.partition_log import PartitionLog
from stratalog.log.loader import load
from stratalog.log.reading import Isolation
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.run import recover_partition
from stratalog.log.recovery.survey import SurveyOptions
from stratalog.manager.manager import LogManager
from stratalog.segment.scan import scan_segment
from tests.log.model import ManualClock, ManualScheduler, batch
from tests.manager.test_manager_crashes import NoLock
from tests.properties.damage import INT64_EDGES, damaged, damaged_text
from tests.properties.mutate import mutated
from tests.properties.victim import FIXTURES, PARTITION, ROOT, Outcomes, files_of
from tests.properties.victims_of_segments import read_segment

ORDERS = TopicPartition("orders", 0)
SMALL = LogConfig.of({"segment.index.bytes": 1200})  # zeros take room on a simulated disk
Files = dict[str, bytes]
KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
STATES = ("", "", ".deleted", ".cleaned", ".swap")
ODD_NAMES = (
    "orders.log",
    ".log",
    "-5.log",
    "+7.index",
    f"{2**63 - 1:020d}.log",
    f"{2**63:020d}.log",
    f"{'9' * 20}.index",
    f"{'9' * 200}.log",
    f"{7:020d}.log.log",
    f"{7:019d}.log",
    f"{7:020d}.log.swap.deleted",
    "\u0663.timeindex",
    "leader-epoch-checkpoint.tmp",
    "partition.metadata.tmp",
    ".kafka_cleanshutdown",
    ".lock",
    "x" * 255,
    "new\nline",
    "core.12345",
    "00000000000000000050-0000000001.checkpoint",
    "99999999999999999999-9999999999.checkpoint",
)
DIRECTORY_NAMES = (
    "orders-1",
    "orders-01",
    "orders--1",
    "orders-2147483648",
    "lost+found",
    "..-0",
    "-0",
    "a\u00e4-0",
    f"orders-1.{'a' * 32}-delete",
    f"orders-1.{'a' * 32}-future",
    f"orders-1.{'a' * 32}-stray",
    "orders-1.short-delete",
    "remote-log-index-cache",
    "__cluster_metadata-0",
    "x" * 250 + "-1",
)


def attack_segment(outcomes: Outcomes, rng: random.Random) -> None:
    """A .log of damaged batches: scanned, asked, viewed, recovered."""
    case = mutated(rng.randrange(1 << 30), 0)
    outcomes.kinds[f".log, v{case.magic}, {case.codec}"] += 1
    base = rng.choice((0, 0, 0, 30, 40, 2**31, 2**62))
    path = f"{PARTITION}/{base:020d}.log"
    files = {path: case.data}
    if rng.random() < 0.5:
        files[f"{PARTITION}/{base:020d}.index"] = rng.choice(files_of("*.index"))
        files[f"{PARTITION}/{base:020d}.timeindex"] = rng.choice(files_of("*.timeindex"))
    disk = SimulatedDisk.of(files)
    scan = scan_segment(disk, path, base, index_interval_bytes=rng.choice((1, 100, 4096)))
    assert 0 <= scan.valid_size <= len(case.data)
    outcomes.counts[f"scan: {scan.stop.name}"] += 1
    read_segment(outcomes, disk, base, [rng.choice(INT64_EDGES), base, base + 41])
    if rng.random() < 0.5:
        _view(outcomes, disk, rng)
    else:
        _recover(outcomes, disk, rng)


def attack_directory(outcomes: Outcomes, rng: random.Random) -> None:
    """A broker's partition with several faults, in its bytes and in its set of files."""
    if rng.random() < 0.1:
        _attack_node(outcomes, rng)
        return
    files = dict(rng.choice(_partitions()))
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        _spoil(rng, files)
    disk = SimulatedDisk.of({f"{PARTITION}/{name}": data for name, data in files.items()})
    if rng.random() < 0.3:
        disk.make_directory(f"{PARTITION}/{rng.choice(ODD_NAMES)}-folder")
        disk.make_directory(f"{ROOT}/{rng.choice(DIRECTORY_NAMES)}")
        disk.sync_everything()
    outcomes.of(lambda: classify(disk, ROOT), "layout")
    if rng.random() < 0.5:
        outcomes.kinds["a whole directory, viewed"] += 1
        before = disk.contents()
        _view(outcomes, disk, rng)
        assert disk.contents() == before, "a view changed something"
    else:
        outcomes.kinds["a whole directory, recovered"] += 1
        _recover(outcomes, disk, rng)


def _attack_node(outcomes: Outcomes, rng: random.Random) -> None:
    """A log directory with its checkpoints, on which a manager starts."""
    outcomes.kinds["a whole log directory, started"] += 1
    root = dict(rng.choice(_roots()))
    _spoil(rng, root)
    files = {f"{ROOT}/{name}": data for name, data in root.items()}
    for number in range(2):
        partition = dict(rng.choice(_partitions()))
        if rng.random() < 0.5:
            _spoil(rng, partition)
        files |= {f"{ROOT}/orders-{number}/{name}": data for name, data in partition.items()}
    disk = SimulatedDisk.of(files)
    if rng.random() < 0.3:
        disk.make_directory(f"{ROOT}/{rng.choice(DIRECTORY_NAMES)}")
        disk.sync_everything()
    clock = ManualClock()
    manager = LogManager(
        [ROOT, "/spare"],
        server=ServerConfig(ManagerConfig(log_cleaner_enable=False), SMALL, ()),
        disk=disk,
        clock=clock,
        scheduler=ManualScheduler(clock),
        make_lock=NoLock,
    )
    if outcomes.of(lambda: _done(manager.startup), "manager: start") is None:
        return
    for log in manager.all_logs():
        start, end = log.log_start_offset, log.log_end_offset
        outcomes.of(
            lambda log=log, start=start, end=end: [
                len(part) for part in consume_columns(log, start, end, Isolation.LOG_END)
            ],
            "manager: read",
        )
        outcomes.of(lambda log=log: log.append_as_leader(batch(b"new"), leader_epoch=9), "manager: append")
    outcomes.of(lambda: _done(manager.shutdown), "manager: stop")


@cache
def _roots() -> tuple[Files, ...]:
    """The small files of brokers' log directories, and of ours."""
    found = []
    for directory in sorted(FIXTURES.glob("*/*/logs")):
        files = {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}
        files["recovery-point-offset-checkpoint"] = b"0\n2\norders 0 20\norders 1 0\n"
        files["log-start-offset-checkpoint"] = b"0\n1\norders 0 3\n"
        found.append(files)
    return tuple(found)


def attack_links(outcomes: Outcomes, rng: random.Random, work: Path) -> None:
    """The same on a real disk, with what only that has: links, pipes, and files of a million megabytes."""
    outcomes.kinds["a directory with links and odd files"] += 1
    root = work / "data"
    partition = root / "orders-0"
    partition.mkdir(parents=True)
    outside = work / "outside"
    outside.write_bytes(b"not yours")
    files = dict(rng.choice(_partitions()))
    for _ in range(rng.randrange(3)):
        _spoil(rng, files)
    for name, data in files.items():
        if len(os.fsencode(name)) <= 255:
            (partition / name).write_bytes(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _plant(rng, partition, outside)
    disk = Disk()
    try:
        outcomes.of(lambda: classify(disk, root), "layout")
        _view(outcomes, disk, rng, str(partition))
        _recover(outcomes, disk, rng, str(partition), str(root))
        assert outside.read_bytes() == b"not yours", "written through a link"
    finally:
        disk.close()
        _remove(work)


def _view(outcomes: Outcomes, disk: Disk, rng: random.Random, directory: str = PARTITION) -> None:
    log = outcomes.of(
        lambda: open_log(directory, read_only=True, disk=disk, clock=ManualClock()), "view: open"
    )
    if log is None:
        return
    _read_all(outcomes, log, "view")
    for time in (rng.choice(INT64_EDGES[:20]), 1_700_000_000_000):
        outcomes.of(lambda at=time: log.offset_for_time(at), "view: time")
    outcomes.of(log.offset_of_newest, "view: newest")
    outcomes.of(lambda: log.topic_id, "view: topic id")
    outcomes.of(log.close, "view: close")


def _done(act: Callable[[], None]) -> bool:
    act()
    return True


def _read_all(outcomes: Outcomes, log: PartitionLog, label: str) -> None:
    for isolation in ("read_uncommitted", "read_committed"):
        outcomes.of(lambda how=isolation: [each.offset for each in log.records(isolation=how)], label)
    outcomes.of(lambda: [len(part) for part in log.arrow_batches()], f"{label}: columns")


def _recover(
    outcomes: Outcomes, disk: Disk, rng: random.Random, directory: str = PARTITION, root: str = ROOT
) -> None:
    clock = ManualClock()
    options = SurveyOptions(
        salvage=rng.random() < 0.3, scan_all=rng.random() < 0.2, had_clean_shutdown=rng.random() < 0.1
    )
    recovery_point = rng.choice((0, 0, 0, 20, 2**62))

    def recover() -> object:
        return recover_partition(
            disk,
            directory,
            topic_partition=ORDERS,
            config=LogConfig(),
            now_ms=clock(),
            quarantine=Quarantine(disk, root, clock=clock),
            recovery_point=recovery_point,
            log_start_offset=rng.choice((0, 0, 17)),
            options=options,
        )

    if outcomes.of(recover, "recovery") is None:
        return
    log = outcomes.of(
        lambda: load(
            disk=disk,
            clock=clock,
            scheduler=ManualScheduler(clock),
            directory=directory,
            topic_partition=ORDERS,
            config=SMALL,
            high_watermark_follows_end=True,
        ),
        "recovery: load",
    )
    if log is None:
        return
    start, end = log.log_start_offset, log.log_end_offset
    for isolation in (Isolation.LOG_END, Isolation.TXN_COMMITTED):
        outcomes.of(
            lambda how=isolation: [len(part) for part in consume_columns(log, start, end, how)],
            "recovery: read",
        )
    log.close_handlers()


@cache
def _partitions() -> tuple[Files, ...]:
    """Those of the brokers, small ones."""
    found = []
    for directory in sorted(FIXTURES.glob("*/*/logs/*-0")):
        files = {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}
        if sum(map(len, files.values())) < 15_000:
            found.append(files)
    return tuple(found)


def _spoil(rng: random.Random, files: Files) -> None:
    """One thing that is wrong."""
    if not files:
        return
    name = rng.choice(sorted(files))
    match rng.randrange(12):
        case 0 | 1 | 2 | 3 | 4:
            spoil = damaged_text if name.startswith(("leader", "partition")) else damaged
            files[name] = spoil(rng, files[name])
        case 5:
            del files[name]
        case 6:
            files[name] = files[rng.choice(sorted(files))]
        case 7:
            files[rng.choice(ODD_NAMES)] = files[name]
        case 8:
            files[_any_name(rng)] = files.pop(name)
        case 9:
            files[_any_name(rng)] = files[name]
        case 10:
            files[name] = b""
        case _:
            files[name] = mutated(rng.randrange(1 << 30), 0).data


def _any_name(rng: random.Random) -> str:
    offset = rng.choice((0, 6, 20, 40, rng.randrange(100), 2**31, 2**63 - 1))
    return f"{offset:020d}{rng.choice(KINDS)}{rng.choice(STATES)}"


def _plant(rng: random.Random, partition: Path, outside: Path) -> None:
    """Something that is not a plain file of a sound size, instead of a file or beside it."""
    names = sorted(path.name for path in partition.iterdir())
    name = rng.choice((*names, *ODD_NAMES, "leader-epoch-checkpoint", "partition.metadata", _any_name(rng)))
    path = partition / name
    if len(os.fsencode(name)) > 255:
        return
    if path.is_symlink() or path.exists():
        if path.is_dir() and not path.is_symlink():
            return
        path.unlink()
    plant = rng.choice(_PLANTED)
    if ".log" in name and plant in _HUGE:
        plant = _sparse(8 << 20)  # read completely, and hashed when it is cut off: larger ones take too long
    plant(path, outside)


def _link_to(target: str) -> Callable[[Path, Path], None]:
    return lambda path, _outside: path.symlink_to(target)


def _sparse(size: int) -> Callable[[Path, Path], None]:
    def make(path: Path, _outside: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


def _make_unreadable(path: Path, _outside: Path) -> None:
    path.touch()
    path.chmod(0)


_HUGE = (_sparse(1 << 31), _sparse((1 << 31) - 1), _sparse(1 << 40), _sparse(100 << 20))
_PLANTED: tuple[Callable[[Path, Path], None], ...] = (
    lambda path, outside: path.symlink_to(outside),
    _link_to("nowhere"),
    _link_to(".."),
    _link_to("."),
    _link_to("/dev/zero"),
    _link_to("/dev/full"),
    lambda path, _outside: path.symlink_to(path.name),
    lambda path, _outside: path.mkdir(),
    lambda path, _outside: os.mkfifo(path),
    *_HUGE,
    _make_unreadable,
)


def _remove(work: Path) -> None:
    for path in sorted(work.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
