"""The clean-shutdown file of a log directory, `.kafka_cleanshutdown`: its content and its meaning.

{"version":0,"brokerEpoch":124}

If the file exists, whatever is in it, a broker trusts the ends of its logs. It deletes the file before it
loads the first log. From the epoch, the controller sees whether the broker's last shutdown is the one that it
knows of. Releases before 3.7 left the file empty.

A broker reads the files of its directories one after the other, and takes -1 for "no epoch seen yet". So
after a -1 it uses the next file's epoch for all directories. Therefore a file that must not promise an epoch
says -1 only if no other directory has one. Otherwise it has no epoch field, and then the broker uses no
directory's epoch. `clean_state.py` writes and deletes the file. Kafka: CleanShutdownFileHandler,
LogManager.readBrokerEpochFromCleanShutdownFiles
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from stratalog.errors import DiskError
from stratalog.files.disk import Path
from stratalog.files.entries import EntryKind
from stratalog.files.names import CLEAN_SHUTDOWN, parse_number
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX, INT64_MIN

VERSION = 0
UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanShutdown:
    """The content of the file. `broker_epoch`: -1 if it promises nothing, None if the file has no epoch."""

    broker_epoch: int | None = None

    @property
    def has_epoch(self) -> bool:
        """Whether it has an epoch, which is a promise to the controller."""
        return self.broker_epoch not in (None, UNKNOWN_EPOCH)

    def beside_epoch(self) -> Self:
        """The content if another directory has an epoch: with -1 here, that epoch would count for all."""
        return self if self.has_epoch else replace(self, broker_epoch=None)

    def fields(self) -> dict[str, int | None]:
        """The fields that `stratalog-session.json` keeps while the file is removed."""
        return {"broker_epoch": self.broker_epoch}

    @classmethod
    def of_fields(cls, fields: Mapping[str, object]) -> Self:
        epoch = fields.get("broker_epoch")
        return cls(broker_epoch=epoch if isinstance(epoch, int) else None)


SAYS_NOTHING = CleanShutdown()
NO_PROMISE = CleanShutdown(broker_epoch=UNKNOWN_EPOCH)


class CleanShutdownFile:
    """The file of one log directory, or of a lone log, for reading."""

    def __init__(self, disk: DiskReader, directory: Path) -> None:
        self.path = join_path(os.fspath(directory), CLEAN_SHUTDOWN)
        self._disk = disk

    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def check(self) -> None:
        """DiskError if something else has its name, so that it cannot be removed or written."""
        status = self._disk.status(self.path)
        if status is not None and status.kind is EntryKind.DIRECTORY:
            raise DiskError(self.path, "it is a folder, in the place of the clean-shutdown file. Remove it.")

    def read(self) -> CleanShutdown:
        """Its content; no epoch if the file is missing or cannot be read. Never raises."""
        try:
            data = self._disk.read_file(self.path) or b""
        except DiskError:
            return SAYS_NOTHING
        return parse_clean_shutdown(data)


def format_clean_shutdown(content: CleanShutdown) -> bytes:
    """The bytes of the file."""
    if content.broker_epoch is None:
        return f'{{"version":{VERSION}}}'.encode()
    return f'{{"version":{VERSION},"brokerEpoch":{content.broker_epoch}}}'.encode()


def parse_clean_shutdown(data: bytes) -> CleanShutdown:
    """Parse the bytes of the file.

    As tolerant as Kafka's reader: other fields and trailing bytes are ignored, a number may be in quotes.
    """
    try:
        found, _ = json.JSONDecoder().raw_decode(data.decode().lstrip())
    except (ValueError, RecursionError):
        return SAYS_NOTHING
    if not isinstance(found, dict) or _whole_number(found.get("version", VERSION)) is None:
        return SAYS_NOTHING
    return CleanShutdown(broker_epoch=_whole_number(found.get("brokerEpoch")))


def _whole_number(value: object) -> int | None:
    if isinstance(value, str):
        return parse_number(value, INT64_MIN, INT64_MAX)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if INT64_MIN <= value <= INT64_MAX else None
