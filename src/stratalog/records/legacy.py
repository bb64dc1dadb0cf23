"""Message sets of magic 0 and 1, which brokers before 0.11 wrote: read only.

at  size  field                                         at  size  field (v1)
 0     8  offset                                         0     8  offset
 8     4  size                    bytes that follow      8     4  size
12     4  crc                     CRC-32 from magic on  12     4  crc
16     1  magic                   0                     16     1  magic        1
17     1  attributes              bits 0-2 codec        17     1  attributes   bit 3: log append time
                                                        18     8  timestamp
18     4  key size                -1: null              26     4  key size
22        key, value size, value                        30        key, value size, value

A compressed set is one message, the wrapper, whose value holds the inner messages as one block. Its offset is
that of the last inner message. Inner offsets are absolute in v0, and count from the first message in v1.

Kafka: LegacyRecord.java, AbstractLegacyRecordBatch.java
"""

from __future__ import annotations

import numpy as np

from stratalog.errors import InvalidRecordError, UnsupportedCompressionTypeError
from stratalog.records.compression import Codec, Scratch, decompress_into
from stratalog.records.kernels.decode import inner_messages, legacy_entry
from stratalog.records.kernels.memory import byte_array


def unpack(view: memoryview, row: np.void, codec: int, scratch: Scratch, limit: int) -> None:
    """Unpack the messages of one entry into the scratch, after what it holds, and update the entry's row.

    Sets base_offset to the number to add to the inner offsets.
    """
    position, end = int(row["position"]), int(row["position"]) + int(row["size"])
    if codec == Codec.NONE:
        size = decompress_into(Codec.NONE, view[position:end], scratch, limit=end - position)
        row["base_offset"] = 0
    else:
        size = _unpack_wrapper(view[position:end], row, codec, scratch, limit)
    row["records_position"] = scratch.used
    scratch.used += size
    row["records_end"] = scratch.used


def _unpack_wrapper(entry: memoryview, row: np.void, codec: int, scratch: Scratch, limit: int) -> int:
    magic, wrapper_offset = int(row["magic"]), int(row["last_offset"])
    if codec == Codec.ZSTD:
        raise UnsupportedCompressionTypeError("zstd came with magic 2; a v0 or v1 message cannot have it.")
    _, _, _, value_position, value_size = _checked_entry(entry)
    if value_size < 0:
        raise InvalidRecordError("a compressed message without a value holds no messages.")
    value = entry[value_position : value_position + value_size]
    size = decompress_into(codec, value, scratch, magic=magic, limit=limit)
    inner_count, last_inner_offset, end = inner_messages(scratch.array, scratch.used, scratch.used + size)
    if inner_count <= 0:
        reason = "holds no whole message" if inner_count == 0 else "holds bytes that are not a message"
        raise InvalidRecordError(f"the compressed message at offset {wrapper_offset} {reason}.")
    # Some old librdkafka versions wrote 0 as the wrapper's offset; then inner offsets count from 0. Kafka:
    # DeepRecordsIterator.
    if magic == 0 or wrapper_offset == 0:
        row["base_offset"] = 0
    elif not 0 <= last_inner_offset <= wrapper_offset:
        # No broker writes a negative offset. Kafka would calculate with it, and might overflow 64 bits.
        raise InvalidRecordError(
            f"the compressed message has offset {wrapper_offset}, but its last inner message has "
            f"{last_inner_offset}."
        )
    else:
        row["base_offset"] = wrapper_offset - last_inner_offset
    return end - scratch.used


def _checked_entry(entry: memoryview) -> tuple[int, int, int, int, int]:
    found = legacy_entry(byte_array(entry), 0, len(entry))
    if found[0] < 0:
        raise InvalidRecordError("the sizes of key and value reach past the end of the message.")
    return found
