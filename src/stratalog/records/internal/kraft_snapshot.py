"""Builds a snapshot of KRaft, `%020d-%010d.checkpoint`: all metadata below an offset, as a file of batches.

batch of control records    a header; also the quorum's version and voters, if they are not in the settings
batches of records          the metadata; record by record, as if a controller had written just these
batch of a control record   a footer

Offsets count from 0 in each file, whatever the snapshot's own offset. A `bootstrap.checkpoint` is such a file
too. Kafka: RecordsSnapshotWriter, RaftSnapshotWriter
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stratalog.clock import Clock
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.internal.encode import Values, encode_control

_MOST_RECORDS = 1024  # in a batch
_KRAFT_VERSION = 1  # the voters are in the log; with version 0 they are in the settings
_FIRST_KRAFT_VERSION = 0


def build_kraft_snapshot(
    records: Sequence[bytes],
    *,
    epoch: int,
    last_timestamp: int,
    clock: Clock,
    voters: Sequence[Values] = (),
) -> bytes:
    """The bytes of a snapshot; `records` are the values of its records (`encode_metadata`).

    `last_timestamp` is that of the last record of the log that the snapshot replaces. `voters` are those of
    a dynamic quorum (`voter`).
    """
    controls = [encode_control("SnapshotHeaderRecord", {"lastContainedLogTimestamp": last_timestamp})]
    if voters:
        controls.append(encode_control("KRaftVersionRecord", {"kRaftVersion": _KRAFT_VERSION}))
        controls.append(encode_control("VotersRecord", {"voters": list(voters)}))
    batches = [_batch(0, controls, epoch, clock, is_control=True)]
    offset = len(controls)
    for start in range(0, len(records), _MOST_RECORDS):
        part = records[start : start + _MOST_RECORDS]
        batches.append(_batch(offset, [(None, value) for value in part], epoch, clock))
        offset += len(part)
    batches.append(
        _batch(offset, [encode_control("SnapshotFooterRecord", {})], epoch, clock, is_control=True)
    )
    return b"".join(batches)


def voter(node_id: int, directory_id: str, endpoints: Iterable[tuple[str, str, int]]) -> Values:
    """One voter of a dynamic quorum; an endpoint is the name of a listener, its host and its port."""
    return {
        "voterId": node_id,
        "voterDirectoryId": directory_id,
        "endpoints": [{"name": name, "host": host, "port": port} for name, host, port in endpoints],
        "kRaftVersionFeature": {
            "minSupportedVersion": _FIRST_KRAFT_VERSION,
            "maxSupportedVersion": _KRAFT_VERSION,
        },
    }


def _batch(
    offset: int,
    records: Sequence[tuple[bytes | None, bytes]],
    epoch: int,
    clock: Clock,
    *,
    is_control: bool = False,
) -> bytes:
    now = clock()
    return build_batch(
        [Record(offset + number, now, key, value) for number, (key, value) in enumerate(records)],
        BatchOptions(is_control=is_control, partition_leader_epoch=epoch),
    )
