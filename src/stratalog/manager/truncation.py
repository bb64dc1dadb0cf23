"""Truncates logs while their cleaning is paused. Kafka: LogManager.truncateTo, truncateFullyAndStartAt"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.log.log import Log
from stratalog.manager.cleaner_manager import LogCleanerManager


def truncate_to(cleaner: LogCleanerManager, log: Log, offset: int) -> bool:
    """Truncate a log to an offset; False if it ends there or before."""
    with _without_cleaner(cleaner, log, offset):
        return log.truncate_to(offset)


def truncate_fully_and_start_at(cleaner: LogCleanerManager, log: Log, offset: int) -> None:
    """Empty a log; its next record gets this offset."""
    with _without_cleaner(cleaner, log, offset):
        log.truncate_fully_and_start_at(offset)


@contextmanager
def _without_cleaner(cleaner: LogCleanerManager, log: Log, offset: int) -> Iterator[None]:
    """Pause the cleaning of a log while it is truncated; records appended after that are dirty."""
    cleaner.abort_and_pause(log.topic_partition)
    try:
        if offset < log.log_end_offset:
            cleaner.truncate_checkpoint(log, offset)
        yield
    finally:
        cleaner.resume([log.topic_partition])
