"""Control records: what brokers write between the records of clients, in batches with the control bit.

key      at  size  field
          0     2  version, 0    below 0: invalid; above: read as 0
          2     2  type          ControlType; a number that has no name is returned as a number

value of ABORT and COMMIT
          0     2  version, 0    below 0: invalid; above: read as 0
          2     4  coordinator_epoch

Further bytes are ignored: a newer version may have them. The values of the other types are messages of
Kafka's schemas, which stratalog.records.internal reads. Kafka: ControlRecordType, EndTransactionMarker.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple, Self

from stratalog.buffers import Buffer
from stratalog.errors import InvalidBatchError, InvalidRecordError
from stratalog.limits import INT32_MAX, INT32_MIN

CURRENT_VERSION = 0
_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")


class ControlType(IntEnum):
    """Kafka's control record types.

    All except the first two are only in KRaft metadata logs and snapshots.
    """

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def parse_control_key(key: Buffer | None) -> tuple[int, ControlType | int]:
    """(version, type) of a control record; a type that Kafka 4.3 has no name for is a plain number."""
    if key is None or len(key) < _KEY.size:
        found = "none" if key is None else f"{len(key)} bytes"
        raise InvalidRecordError(
            f"the key of a control record has at least {_KEY.size} bytes, found {found}."
        )
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"a control record's key has version {version}; versions start at 0.")
    return version, ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else number


def build_control_key(control_type: ControlType) -> bytes:
    """The key that Kafka writes for a control record of this type."""
    return _KEY.pack(CURRENT_VERSION, control_type)


class EndTxnMarker(NamedTuple):
    """The end of a transaction: COMMIT or ABORT, and the epoch of the coordinator that decided."""

    control_type: ControlType
    coordinator_epoch: int
    version: int = CURRENT_VERSION

    @classmethod
    def parse(cls, key: Buffer | None, value: Buffer | None) -> Self:
        """The marker in a control record; InvalidRecordError if it is not a marker.

        A value shorter than 6 bytes is invalid, as it was for Kafka up to 4.0. From 4.1 on, a broker that
        recovers such a log fails and does not start.
        """
        _, control_type = parse_control_key(key)
        if not isinstance(control_type, ControlType) or control_type > ControlType.COMMIT:
            raise InvalidRecordError(
                f"control type {int(control_type)} is not a transaction marker, which has type 0 or 1."
            )
        if value is None or len(value) < _MARKER.size:
            found = "none" if value is None else f"{len(value)} bytes"
            raise InvalidRecordError(
                f"the value of a transaction marker has at least {_MARKER.size} bytes, found {found}."
            )
        version, coordinator_epoch = _MARKER.unpack_from(value)
        if version < 0:
            raise InvalidRecordError(f"a transaction marker has version {version}; versions start at 0.")
        return cls(control_type, coordinator_epoch, version)

    def key_bytes(self) -> bytes:
        """The record's key. Always of the current version: the meaning of a newer one is unknown."""
        if self.control_type not in (ControlType.ABORT, ControlType.COMMIT):
            raise InvalidBatchError(f"a transaction marker is ABORT or COMMIT, not {self.control_type!r}.")
        return build_control_key(self.control_type)

    def value_bytes(self) -> bytes:
        """The record's value, also of the current version."""
        if not INT32_MIN <= self.coordinator_epoch <= INT32_MAX:
            raise InvalidBatchError(f"coordinator_epoch {self.coordinator_epoch} does not fit into an int32.")
        return _MARKER.pack(CURRENT_VERSION, self.coordinator_epoch)
