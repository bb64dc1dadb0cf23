"""The journal of a program that is killed: its lines, and what they say of a log.

Each line is one `write`, so that it is there or not.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from stratalog.log.api.consume import consume
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.records.build import Record
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.reader import read_batches
from tests.lives.known import Found, LogState

LOG_END = Isolation.LOG_END


class Journal:
    """A journal: a line is in the file when `note` returns, whatever happens to the process.

    `on_line` is called after each of them with its number.
    """

    def __init__(self, path: str, on_line: Callable[[int], object] = lambda _: None) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = count()
        self._on_line = on_line

    def note(self, *line: Any) -> None:
        os.write(self._descriptor, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._on_line(next(self._numbers))


def read_journal(path: str) -> list[list[Any]]:
    """The complete lines; anything after the last line end was being written when the process died."""
    *lines, _ = Path(path).read_bytes().split(b"\n")
    return [json.loads(line) for line in lines]


def state_of(fields: Sequence[Any]) -> LogState:
    """The state of a log in a line of the journal."""
    start, end, stable, records, committed = fields
    found = [Found(*record) for record in records]
    return LogState(start=start, end=end, stable=stable, records=found, committed=committed)


def facts_of(log: Log) -> tuple[int, int, int, list[Found], list[int]]:
    start, end, stable = log.log_start_offset, log.log_end_offset, log.last_stable_offset
    records: list[Found] = []
    offset = start
    while offset < end:
        data = log.read(offset, 1 << 20, isolation=LOG_END).records
        batches = [*read_batches(data)]
        for batch in batches:
            for record in batch:
                if record.offset >= start:
                    records.append(found_in(record, batch.facts.producer_id, is_control=batch.is_control))
        if not batches:
            break
        offset = batches[-1].facts.last_offset + 1
    committed = [found.offset for found in consume(log, start, max(stable, start), Isolation.TXN_COMMITTED)]
    return start, end, stable, records, committed


def found_in(record: Any, producer: int | None, *, is_control: bool = False) -> Found:
    if is_control:
        return Found(record.offset, _marker_kind(record), None, None, producer)
    (_, identity), *_ = record.headers
    key = None if record.key is None else record.key.decode()
    return Found(record.offset, identity.decode(), key, crc_of(record.value), producer)


def _marker_kind(record: Record) -> str:
    kind = EndTxnMarker.parse(record.key, record.value).control_type
    return "commit" if kind is ControlType.COMMIT else "abort"


def crc_of(value: bytes | None) -> int | None:
    return None if value is None else zlib.crc32(value)
