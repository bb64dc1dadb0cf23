"""Sets that can be written as they are: one plain v2 batch, without a producer, whose records are checked.

Most appends are of this kind. In such a batch only the base offset and the leader epoch have to be set, which
no CRC covers. So there is nothing to look at again under the lock, and no table of batches is needed. All
other sets, and all that are refused, go through `append.py` and `validation.py`. Both ways give the same
bytes and accept the same sets: tests/log/test_ready.py compares them.
"""

from __future__ import annotations

import struct
from datetime import datetime
from typing import Any

import numpy as np

from stratalog.config import LogConfig
from stratalog.limits import INT64_MAX
from stratalog.log.validation import target_codec
from stratalog.records.batch import LOG_OVERHEAD
from stratalog.records.compression import Codec
from stratalog.records.few import build_one
from stratalog.records.kernels.validate import check_ready
from stratalog.records.values import build_values

_PLAIN = Codec.NONE  # looking up an Enum's member takes longer than looking up a name
_COPIED = (bytes, bytearray)
_BYTES = {bytes}
_ONE_OVERHEAD = 97  # the most bytes of a batch of one record that are neither its key nor its value
_START = struct.Struct(">qiI")  # base offset, batch length, leader epoch: how a batch begins
_UINT32_MASK = 0xFFFF_FFFF


class ReadySet:
    """A set of one batch, in memory of its own. Its offsets count from 0 until it is stamped."""

    __slots__ = ("data", "first_offset", "last_offset", "max_timestamp", "size")

    def __init__(self, data: bytearray | memoryview, records_count: int, max_timestamp: int) -> None:
        self.data = data
        self.size = len(data)
        self.first_offset = 0
        self.last_offset = records_count - 1
        self.max_timestamp = max_timestamp

    @property
    def first_known_offset(self) -> int:
        """The first offset. Named as in AppendInfo, which may not know its first offset."""
        return self.first_offset

    def stamp(self, first_offset: int, leader_epoch: int) -> None:
        """Give the batch its offsets and its epoch."""
        _START.pack_into(self.data, 0, first_offset, self.size - LOG_OVERHEAD, leader_epoch & _UINT32_MASK)
        self.last_offset += first_offset - self.first_offset
        self.first_offset = first_offset


class ReadyRules:
    """What a topic requires of ready sets. Created once for each configuration, not for each append."""

    __slots__ = ("_after_max", "_before_max", "_is_possible", "_max_size", "_needs_key", "_numbers")

    def __init__(self, config: LogConfig) -> None:
        # LogAppendTime changes every batch, and so does a codec that the topic prescribes.
        is_create_time = config.message_timestamp_type == "CreateTime"
        self._is_possible = is_create_time and target_codec(config, _PLAIN) is _PLAIN
        self._needs_key = config.compact
        self._max_size = config.max_message_bytes
        self._before_max = config.message_timestamp_before_max_ms
        self._after_max = config.message_timestamp_after_max_ms
        numbers = (self._max_size, self._needs_key, self._before_max, self._after_max)
        self._numbers = np.array(numbers, np.int64)

    def check(self, data: Any, now_ms: int) -> ReadySet | None:
        """A client's set, if it is ready to be written; None for any other set.

        `data` is any object with the buffer protocol, whose bytes are copied, or a ReadySet that is not
        appended yet.
        """
        if type(data) not in _COPIED:
            return data if isinstance(data, ReadySet) else None
        if not self._is_possible:
            return None
        copy = bytearray(data)
        count, max_timestamp = check_ready(np.frombuffer(copy, np.uint8), self._numbers, now_ms)
        return ReadySet(copy, count, max_timestamp) if count else None

    def of_record(
        self, value: bytes | None, key: bytes | None, timestamp: int | datetime | None, now_ms: int
    ) -> ReadySet | None:
        """A set of one record without headers; None if the record is unusual, or is to be refused."""
        if timestamp is None:
            timestamp = now_ms
        elif type(timestamp) is not int:
            return None
        size = _ONE_OVERHEAD
        if key is not None:
            if type(key) is not bytes:
                return None
            size += len(key)
        elif self._needs_key:
            return None
        if value is not None:
            if type(value) is not bytes:
                return None
            size += len(value)
        if size > self._max_size or not self._accepts(timestamp, timestamp, now_ms):
            return None
        return ReadySet(build_one(timestamp, key, value), 1, timestamp)

    def of_values(self, records: list[Any], now_ms: int) -> ReadySet | None:
        """A set of values with the present time; None if the records are anything else, or are refused."""
        if self._needs_key or not self._accepts(now_ms, now_ms, now_ms) or set(map(type, records)) != _BYTES:
            return None
        batch = build_values(records, now_ms)
        if batch is None or len(batch) > self._max_size:
            return None
        return ReadySet(batch.data, len(records), now_ms)

    def _accepts(self, oldest: int, newest: int, now_ms: int) -> bool:
        """Whether records with such timestamps are accepted in a plain batch."""
        return (
            self._is_possible
            and oldest >= 0
            and now_ms - oldest <= self._before_max
            and newest - now_ms <= self._after_max
            and newest <= INT64_MAX
        )
