"""Logs with five records to a segment."""

from __future__ import annotations

from typing import Any

from stratalog.log.log import Log
from stratalog.log.retention import Rule
from stratalog.records.build import BatchOptions, Record, build_batch
from tests.log.model import NOW, Machine, batch

SET_SIZE = len(batch(b"0000"))


def filled(machine: Machine, count: int = 10) -> Log:
    """Records of one size, five to a segment."""
    log = machine.open()
    for number in range(count):
        data = batch(b"%04d" % number, timestamp=NOW + 10 * number)
        log.append_as_leader(data, leader_epoch=number // 4)
    return log


def machine(**settings: int | str) -> Machine:
    """Five records to a segment, of one size."""
    limits: dict[str, Any] = {"retention_ms": -1, **settings}
    return Machine(
        internal_segment_bytes=5 * SET_SIZE,
        segment_index_bytes=1000,
        file_delete_delay_ms=1000,
        **limits,
    )


def fill(log: Log, count: int = 15, *, timestamp: int = NOW) -> Log:
    for number in range(count):
        log.append_as_leader(batch(b"%04d" % number, timestamp=timestamp), leader_epoch=0)
    return log


def bases(log: Log) -> list[int]:
    return list(log.segments.base_offsets)


def rules(log: Log) -> list[Rule | None]:
    return [found.rule for found in log.delete_old_segments()]


def with_a_producer(own: Machine) -> Log:
    """Many segments with records of one producer, and a snapshot at each base but the first."""
    log = own.open()
    options = [BatchOptions(producer_id=1, producer_epoch=0, base_sequence=number) for number in range(16)]
    for each in options:
        log.append_as_leader(
            build_batch([Record(0, NOW, b"k", b"%04d" % each.base_sequence)], each), leader_epoch=0
        )
    assert len(own.files(".snapshot")) == len(log.segments) - 1
    return log
