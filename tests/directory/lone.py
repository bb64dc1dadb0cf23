"""Logs that programs open by themselves, and log directories that take them over."""

from __future__ import annotations

import shutil
from pathlib import Path

from stratalog import open_log
from stratalog.directory.recovery.recover import recover_directories
from stratalog.files.names import TopicPartition
from tests.jobs.writing.sinking import Writing
from tests.log.model import ManualClock, ManualScheduler
from tests.manager.running import Node, values

ORDERS = TopicPartition("orders", 0)
MARK, STARTS = ".kafka_cleanshutdown", "log-start-offset-checkpoint"
OPEN_LOG = """
import sys
import stratalog
with stratalog.open_log(sys.argv[1], create=True) as log:
    log.append(b"theirs")
    print("open", flush=True)
    input()
"""
OPEN_MANAGER = """
import sys
import stratalog
with stratalog.LogManager([sys.argv[1]]):
    print("open", flush=True)
    input()
"""


def lone(directory: Path, *records: bytes, start: int = 0) -> None:
    """A lone log, closed, with a segment for each record."""
    with open_log(directory, create=True) as log:
        for number, value in enumerate(records):
            if number:
                log.log.roll()
            log.append(value)
        log.delete_records(start)


def left_open(directory: Path, *records: bytes, start: int = 0) -> None:
    """The same, but its writer was killed."""
    lone(directory, *records, start=start)
    # A scheduler that does nothing by itself: otherwise files would come and go while they are copied.
    with open_log(directory, scheduler=ManualScheduler(ManualClock())):
        copy = shutil.copytree(directory, directory.parent / "copy")
    shutil.rmtree(directory)
    copy.rename(directory)


def start_manager(directory: Path) -> None:
    Node(directory).manager().startup()


def recover(directory: Path) -> None:
    recover_directories([str(directory)])


def start_and_stop(directory: Path) -> None:
    with Node(directory).running():
        pass


def write_a_row(directory: Path) -> None:
    writing = Writing(str(directory), topic="orders", partitions="1")
    writing.task({"value": [b"c"]})
    writing.commit()


def started_at(directory: Path) -> tuple[int, list[bytes | None]]:
    with Node(directory).running(high_watermark_follows_end=True) as manager:
        log = manager.get_log(ORDERS)
        assert log is not None
        return log.log_start_offset, values(log)
