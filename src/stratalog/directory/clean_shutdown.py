"""The clean-shutdown file of a log directory, `.kafka_cleanshutdown`: what is in it, and what it says.

{"version":0,"brokerEpoch":124}

That the file is there is what counts: a broker then believes the ends of its logs, and deletes the file
before it loads the first one. The epoch tells the controller whether the broker's last stop was the one it
knows of. Releases before 3.7 left the file empty.

A broker goes through the files of its directories with -1 for "none seen yet": after a -1 the next epoch
counts for all. So a file that must promise nothing says -1 only where no directory beside it says an epoch,
and else no epoch at all, which no other can make up for. `clean_state.py` writes and deletes it.
Kafka: CleanShutdownFileHandler, LogManager.readBrokerEpochFromCleanShutdownFiles
"""

from __future__ import annotations

import json
import os

from stratalog.errors import DiskError
from stratalog.files.disk import Path
from stratalog.files.names import CLEAN_SHUTDOWN, parse_number
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX, INT64_MIN

VERSION = 0
UNKNOWN_EPOCH = -1


class CleanShutdownFile:
    """The file of one log directory, or of a log that is by itself, for reading."""

    def __init__(self, disk: DiskReader, directory: Path) -> None:
        self.path = join_path(os.fspath(directory), CLEAN_SHUTDOWN)
        self._disk = disk

    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def read(self) -> int | None:
        """The broker's epoch; None without a file, or if the file has no epoch. Never raises."""
        try:
            data = self._disk.read_file(self.path) or b""
        except DiskError:
            return None
        return parse_broker_epoch(data)


def format_clean_shutdown(broker_epoch: int | None) -> bytes:
    """The bytes of the file; None for one that says no epoch."""
    if broker_epoch is None:
        return f'{{"version":{VERSION}}}'.encode()
    return f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'.encode()


def parse_broker_epoch(data: bytes) -> int | None:
    """The epoch in the bytes of the file; None for whatever says none.

    As forgiving as Kafka's reader: other fields and what follows are ignored, a number may be in quotes.
    """
    try:
        found, _ = json.JSONDecoder().raw_decode(data.decode().lstrip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or _whole_number(found.get("version", VERSION)) is None:
        return None
    return _whole_number(found.get("brokerEpoch"))


def _whole_number(value: object) -> int | None:
    if isinstance(value, str):
        return parse_number(value, INT64_MIN, INT64_MAX)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if INT64_MIN <= value <= INT64_MAX else None
