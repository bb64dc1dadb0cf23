"""Batches with other header fields than a producer gave them."""

from __future__ import annotations

from stratalog.records.batch import BatchHeader, write_crc


def changed(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and the CRC to go with them."""
    out = bytearray(batch)
    out[:61] = BatchHeader.unpack(out)._replace(**fields).pack()
    write_crc(out, 0, len(out))
    return bytes(out)
