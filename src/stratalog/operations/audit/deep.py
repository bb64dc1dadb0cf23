"""Checks the records inside batches: they must unpack, decode, and agree with their header.

In an internal topic each record must also be one that a broker knows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stratalog.errors import CorruptRecordError
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.spots import Spot
from stratalog.operations.words import sentence
from stratalog.records.columns import ColumnReader
from stratalog.records.internal import decode_internal
from stratalog.records.internal.topics import UNKNOWN
from stratalog.records.internal_topics import is_internal
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable


def check_records(topic: str, file: str, data: Bytes, rows: BatchTable, position: int) -> Iterator[Spot]:
    """What is wrong with the records of these batches; the buffer begins at byte `position` of the file."""
    columns = ["offset", "key", "value"] if is_internal(topic) else ["offset"]
    reader = ColumnReader(columns=columns, check_crc=False, include_control=not is_internal(topic))
    for start, end in runs(rows):
        at = start
        while at < end:
            try:
                for batch in reader.read(data, start=at, end=end):
                    if is_internal(topic):
                        yield from _check_internal(topic, file, batch)
                break
            except CorruptRecordError as error:
                number = int(np.searchsorted(rows["position"], error.position, side="right")) - 1
                row = rows[max(number, 0)]
                yield Spot(
                    AuditKind.INVALID_RECORDS,
                    file,
                    sentence(error.reason),
                    position=position + int(row["position"]),
                    size=int(row["size"]),
                    offset=int(row["base_offset"]),
                )
                at = max(int(row["position"]) + int(row["size"]), at + 1)


def runs(rows: BatchTable) -> Iterator[tuple[int, int]]:
    """Ranges of the buffer in which good batches follow each other without a gap."""
    starts, ends = rows["position"], rows["position"] + rows["size"]
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(rows)], strict=True):
        yield int(starts[first]), int(ends[last - 1])


def _check_internal(topic: str, file: str, batch: object) -> Iterator[Spot]:
    for row in batch.to_pylist():  # type: ignore[attr-defined]  # pyarrow has no types
        try:
            record = decode_internal(topic, row["key"], row["value"])
            if record.kind != UNKNOWN:
                continue
            reason = f"Kafka 4.3.1 does not know records of type {record.record_type}, or this version"
        except CorruptRecordError as error:
            reason = error.reason
        yield Spot(AuditKind.UNDECODABLE_RECORD, file, sentence(reason), offset=row["offset"])
