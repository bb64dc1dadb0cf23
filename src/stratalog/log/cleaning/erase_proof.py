"""Reads back the files that an erasure has written, before the originals are deleted.

The two files have the same batches, one for one. Batches that were to be copied are compared by SHA-256.
Batches that were to lose records are decoded in both files and compared record by record: exactly the
selected records must be missing, and the header must still be that of the same batch of the same producer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import EraseProofError
from stratalog.log.cleaning.erase_selection import Selection, hash_of_key
from stratalog.log.cleaning.parts import BatchFile
from stratalog.records.batch import Attributes, BatchHeader
from stratalog.records.build import Record
from stratalog.records.reader import RecordBatch, read_batches
from stratalog.segment.headers import stream_batches

_LASTING = Attributes.LOG_APPEND_TIME | Attributes.TRANSACTIONAL | Attributes.CONTROL
_HASHED_AT_ONCE = 1 << 20


@dataclass(slots=True, kw_only=True)
class Removed:
    """The records that are gone: how many, from which offset to which, and whose keys (as hashes)."""

    records_count: int = 0
    first_offset: int = -1
    last_offset: int = -1
    key_hashes: set[str] = field(default_factory=set)

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self.records_count += 1
            self.first_offset = record.offset if self.first_offset < 0 else self.first_offset
            self.last_offset = record.offset
            if record.key is not None:
                self.key_hashes.add(hash_of_key(record.key))


def prove(before: BatchFile, after: BatchFile, selection: Selection, changed: NDArray[np.int64]) -> Removed:
    """The records missing in `after`; EraseProofError if they are not exactly the selected ones.

    `changed` are the numbers of the batches that were to lose records.
    """
    removed = Removed()
    old, new = hashlib.sha256(), hashlib.sha256()
    pairs = zip_longest(_changed(before, changed, old), _changed(after, changed, new))
    for old_bytes, new_bytes in pairs:
        if old_bytes is None or new_bytes is None:
            raise EraseProofError(after.log_path, "it has a different number of batches than before.")
        _compare(old_bytes, new_bytes, selection, removed, after.log_path)
    if old.digest() != new.digest():
        raise EraseProofError(after.log_path, "a batch that should lose no record has changed.")
    return removed


def sha256_of(file: BatchFile) -> str:
    """The SHA-256 of all bytes of a file, in hexadecimal."""
    digest = hashlib.sha256()
    buffer = np.empty(_HASHED_AT_ONCE, np.uint8)
    position = 0
    while position < file.size:
        size = file.read_into(buffer[: file.size - position], position)
        if not size:
            raise EraseProofError(file.log_path, f"it ends at byte {position} and not at {file.size}.")
        digest.update(buffer[:size].data)
        position += size
    return digest.hexdigest()


def _changed(file: BatchFile, numbers: NDArray[np.int64], digest: Any) -> Iterator[bytes]:
    """The batches with these numbers; the digest gets all others, and then the number of all batches."""
    count, end = 0, 0
    for data, headers, position in stream_batches(
        file.read_into, 0, file.size, path=file.log_path, check_crc=True
    ):
        first, last = np.searchsorted(numbers, [count, count + len(headers)])
        starts, sizes = headers["position"].tolist(), headers["size"].tolist()
        done = starts[0]
        for index in (numbers[first:last] - count).tolist():
            digest.update(data[done : starts[index]].data)
            done = starts[index] + sizes[index]
            yield data[starts[index] : done].tobytes()
        digest.update(data[done : starts[-1] + sizes[-1]].data)
        count += len(headers)
        end = position + starts[-1] + sizes[-1]
    if end != file.size:
        raise EraseProofError(file.log_path, f"its batches end at byte {end} and not at {file.size}.")
    digest.update(count.to_bytes(8, "big"))


def _compare(old: bytes, new: bytes, selection: Selection, removed: Removed, path: str) -> None:
    (before,), (after,) = read_batches(old), read_batches(new)
    there = list(before)
    gone = [record for record in there if selection.has(record)]
    expected = [record for record in there if not selection.has(record)]
    offset = before.facts.last_offset
    if list(after) != expected:
        raise EraseProofError(
            path, f"the batch that ends at offset {offset} does not have exactly the records that stay."
        )
    if before.is_control or not gone or not _is_same_batch(before, after, is_empty=not expected):
        raise EraseProofError(
            path, f"the batch that ends at offset {offset} has a different header than before."
        )
    removed.add(gone)


def _is_same_batch(before: RecordBatch, after: RecordBatch, *, is_empty: bool) -> bool:
    if before.facts.magic < 2:
        return after.facts.last_offset == before.facts.last_offset
    old, new = before.header, after.header
    mask = _LASTING if is_empty else ~0
    return old.attributes & mask == new.attributes and _identity(old) == _identity(new)


def _identity(header: BatchHeader) -> tuple[int, ...]:
    """The header fields by which a broker and its replicas identify a batch."""
    return (
        header.base_offset,
        header.last_offset_delta,
        header.partition_leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )
