"""Compiles every kernel, by running a small log through everything that commands do with a log.

The log is on a simulated disk: only the folder of compiled kernels is written to.
"""

from __future__ import annotations

import io
from functools import partial

import numpy as np

from stratalog.cli.dumping.files import dump_files
from stratalog.cli.dumping.names import found_files
from stratalog.cli.dumping.options import DumpOptions
from stratalog.cli.dumping.printer import Printer
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning import DirtyLog, OffsetMap, clean_log
from stratalog.log.cleaning.sampling import sample_log
from stratalog.log.cleaning.tally import KeyTally, Prefix, Tally
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.log.origin import AppendOrigin
from stratalog.log.reading import Isolation
from stratalog.log.recovery.salvage import find_readable
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.operations.audit.segment_task import AuditTask, audit_segment
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.kernels.decode import RECORD
from stratalog.records.kernels.walk import BATCH
from stratalog.records.warm import OLD_SET, warm
from stratalog.segment.scan import scan_segment

_DIRECTORY = "/warm-0"
_in_transaction = partial(BatchOptions, producer_id=1, producer_epoch=0, is_transactional=True)


def warm_everything() -> None:
    """Compile or load all kernels of all commands."""
    warm()
    disk = SimulatedDisk()
    disk.make_directories(_DIRECTORY)
    _write_log(disk)
    path = f"{_DIRECTORY}/{0:020d}.log"
    scan_segment(disk, path, 0, index_interval_bytes=1)
    end = disk.size(path)
    _audit(disk, end)
    find_readable(disk, path, 0, end, last_offset=-1, last_epoch=-1, next_base=1 << 31)
    find_readable(disk, path, 1, end, last_offset=-1, last_epoch=-1, next_base=1 << 31)
    options = DumpOptions(deep=True, print_data=True)
    for as_json in (False, True):
        printer = Printer(io.BytesIO(), io.StringIO(), as_json=as_json)
        dump_files(disk, list(found_files(disk, _DIRECTORY)), options, printer)


def _audit(disk: SimulatedDisk, size: int) -> None:
    task = AuditTask(
        directory=_DIRECTORY,
        topic="warm",
        base_offset=0,
        size=size,
        next_base=None,
        was_closed=True,
        now_ms=system_clock(),
    )
    audit_segment(disk, task)


def _write_log(disk: SimulatedDisk) -> None:
    """Append batches and markers, as leader and as follower, look things up, compact and truncate."""
    scheduler = BackgroundScheduler()
    log = load(
        disk=disk,
        clock=system_clock,
        scheduler=scheduler,
        directory=_DIRECTORY,
        topic_partition=TopicPartition("warm", 0),
        config=LogConfig.of({"index.interval.bytes": 1, "segment.index.bytes": 1024}),
        high_watermark_follows_end=True,
    )
    now = system_clock()
    for codec in (Codec.NONE, Codec.LZ4):
        log.append_as_leader(
            build_batch([Record(0, now, b"k", "\u00e9".encode(), (("h", b"v"),))], BatchOptions(codec=codec)),
            leader_epoch=0,
        )
    log.append_as_leader(OLD_SET, leader_epoch=0)
    log.append_as_leader(build_batch([Record(0, now)], _in_transaction(base_sequence=0)), leader_epoch=0)
    marker = EndTxnMarker(ControlType.ABORT, 0)
    log.append_as_leader(
        build_batch(
            [Record(0, now, marker.key_bytes(), marker.value_bytes())],
            _in_transaction(is_control=True),
        ),
        leader_epoch=0,
        origin=AppendOrigin.COORDINATOR,
        transaction_version=0,
    )
    # The number of batches in a set is estimated from the size of the first one. This one is larger than the
    # others, so there are more batches than estimated, and the kernel for the rest runs too.
    values = [b"v" * 300, b"v", b"v"]
    fetched = [Record(log.log_end_offset + number, now, b"k", value) for number, value in enumerate(values)]
    log.append_as_follower(
        b"".join(build_batch([record], BatchOptions(partition_leader_epoch=0)) for record in fetched),
        leader_epoch=0,
    )
    log.read(0, 1 << 20, isolation=Isolation.TXN_COMMITTED)
    log.fetch_offset_by_timestamp(now)
    _clean(disk, log)
    log.truncate_to(log.log_end_offset - 1)
    log.close()
    scheduler.close()


def _clean(disk: SimulatedDisk, log: Log) -> None:
    """Run a compaction and an estimate without writing anything."""
    tally = KeyTally([Tally(Prefix(size=1), slots_count=8)])
    dirty = DirtyLog(
        disk=disk,
        segments=log.segments.readers,
        config=log.config,
        first_dirty_offset=0,
        first_uncleanable_offset=log.log_end_offset,
        last_records={},
    )
    now = system_clock()
    clean_log(dirty, OffsetMap(1024), now_ms=now, replace_segments=None, observe=tally.observe)
    backwards = OffsetMap(1024)
    backwards.go_backwards(0, 1)
    backwards.put_newest(np.zeros(1, BATCH), np.zeros(1, RECORD), np.zeros((1, 2), np.uint64))
    sample_log(dirty, OffsetMap(1024), draws_count=2, seed=0, now_ms=now)
