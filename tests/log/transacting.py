"""Transactions that a test writes into a log, one step after the other."""

from __future__ import annotations

from stratalog.files.simulated import SimulatedDisk
from stratalog.log.api.consume import consume
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.records.control import ControlType
from tests.log.model import append_marker, batch, produced

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
COMMITTED = Isolation.TXN_COMMITTED


class Script:
    """A log, and how far each producer has come."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.sequences: dict[int, int] = {}

    def transact(self, producer_id: int, count: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        values = [b"%d" % producer_id] * count
        self.log.append_as_leader(
            produced(producer_id, sequence, *values, transactional=True), leader_epoch=0
        )
        self.sequences[producer_id] = sequence + count

    def plain(self, count: int) -> None:
        self.log.append_as_leader(batch(*[b"plain"] * count), leader_epoch=0)

    def worked_example(self) -> None:
        """Four producers whose transactions overlap; Kafka's index of it is in its own tests."""
        self.transact(1, 5)
        self.plain(3)
        self.transact(2, 2)
        self.transact(1, 4)
        self.transact(3, 3)
        self.plain(2)
        self.transact(1, 10)
        assert append_marker(self.log, 1, ABORT) == 29
        self.transact(2, 6)
        self.transact(4, 3)
        self.plain(10)
        self.transact(3, 9)
        assert append_marker(self.log, 3, COMMIT) == 58
        self.transact(4, 8)
        self.transact(2, 7)
        assert append_marker(self.log, 2, ABORT) == 74
        self.plain(10)
        self.transact(4, 4)
        assert append_marker(self.log, 4, COMMIT) == 89


def disk_of(log: Log) -> SimulatedDisk:
    disk = log._folder.disk
    assert isinstance(disk, SimulatedDisk)
    return disk


def values(log: Log, start: int = 0) -> list[tuple[int, bytes | None]]:
    return [(r.offset, r.value) for r in consume(log, start, log.log_end_offset, COMMITTED)]
