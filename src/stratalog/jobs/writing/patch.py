"""Sets base offsets and the leader epoch in the batches of a staged segment, in place.

Both are outside the checksum, so that a leader can set them: no payload byte is read. Offsets in a staged
segment have no gaps, so the base offset of a batch follows from the numbers of records before it, not from
its header. So an interrupted patch can simply be repeated.
"""

from __future__ import annotations

import struct

from stratalog.errors import CorruptRecordError, DiskError
from stratalog.files.disk import Disk
from stratalog.files.reading import DiskReader
from stratalog.records.batch import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, BatchHeader

_START = struct.Struct(">q i i")  # base offset, batch length, leader epoch: the header up to its magic


def patch_segment(
    disk: Disk, path: str, size: int, *, base_offset: int, leader_epoch: int, sync: bool
) -> int:
    """Give the segment's first record `base_offset`; returns the offset after its last record."""
    status = disk.status(path)
    if status is None:
        raise DiskError(
            path,
            "a task wrote this file, but it is not on this machine. The driver and the workers must see the "
            "same log directory: write on the machine that has it, or share its file system.",
        )
    if status.size != size:
        raise CorruptRecordError(f"it has {status.size} bytes, but its task wrote {size}.", path=path)
    position, offset = 0, base_offset
    while position < size:
        header = _header_at(disk, path, position, size)
        disk.write_at(path, _START.pack(offset, header.batch_length, leader_epoch), position)
        offset += header.last_offset_delta + 1
        position += header.batch_length + LOG_OVERHEAD
    if sync:
        disk.sync(path)
    return offset


def _header_at(disk: DiskReader, path: str, position: int, size: int) -> BatchHeader:
    data = disk.read_at(path, RECORD_BATCH_OVERHEAD, position)
    if len(data) == RECORD_BATCH_OVERHEAD:
        header = BatchHeader.unpack(data)
        batch_size = header.batch_length + LOG_OVERHEAD
        if header.magic == 2 and RECORD_BATCH_OVERHEAD <= batch_size <= size - position:
            return header
    raise CorruptRecordError("no batch starts here, though its task wrote one.", position=position, path=path)
