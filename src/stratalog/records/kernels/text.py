"""Batches and records as the lines of Kafka's dump tool, written as bytes into a buffer.

A segment of 1 GiB becomes some ten million lines. Here a line takes less than 0.2 microseconds; making a
Python string for it would take longer.

Kafka: DumpLogSegments.printBatchLevel, printRecordMetadata, printRecordContents
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX, INT64_MIN
from stratalog.records.kernels.characters import write_number, write_text
from stratalog.records.kernels.crc32c import crc32_zlib
from stratalog.records.kernels.decode import RecordTable, varint
from stratalog.records.kernels.gather import headers_work
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import Bytes, copy_bytes, load_u32, wrapped_difference
from stratalog.records.kernels.walk import BatchTable

# What a record's line contains.
METADATA = 1  # offset, timestamp, sizes, sequence, header keys
CONTENTS = 2  # key and payload as text, of records that are not control records
CONTROL_BY_HAND = 4  # stop at a record of a control batch: the caller writes its content
ALL_BY_HAND = 8  # stop at every record
OPEN = 16  # write the start of a line, without a line break, for a caller that writes the rest

# Why the writing stopped.
DONE = 0
FULL = 1  # the buffer or the table of gaps is full; empty them and continue
BY_HAND = 2  # at a record that the caller writes

# The longest line of a batch, or of a record without its text.
LONGEST_BATCH = 1024
LONGEST_RECORD = 512
WIDEST = 3  # an invalid byte becomes the three bytes of U+FFFD

NO_OFFSET = INT64_MIN  # the record before is unknown, so no gap is reported before this one
APPEND_TIME_BIT, CONTROL_BIT, HORIZON_BIT = 8, 32, 64
FLAGS_SHIFT = 4  # of the bits transactional, control, delete horizon
CODEC_MASK = 7

_words: list[str] = []


def _word(text: str) -> int:
    """Add a word; returns the number by which kernels refer to it."""
    _words.append(text)
    return len(_words) - 1


RECORD_OFFSET = _word("| offset: ")
CREATE_TIME = _word(" CreateTime: ")
LOG_APPEND_TIME = _word(" LogAppendTime: ")
NO_TIMESTAMP_TYPE = _word(" NoTimestampType: ")
KEY_SIZE = _word(" keySize: ")
VALUE_SIZE = _word(" valueSize: ")
SEQUENCE = _word(" sequence: ")
HEADER_KEYS = _word(" headerKeys: [")
RECORD_CRC = _word(" isValid: false crc: ")  # the next word is for true
_word(" isValid: true crc: ")
INDENT = _word("|")
KEY = _word(" key: ")
PAYLOAD = _word(" payload: ")
BASE_OFFSET = _word("baseOffset: ")
LAST_OFFSET = _word(" lastOffset: ")
COUNT = _word(" count: ")
BASE_SEQUENCE = _word(" baseSequence: ")
LAST_SEQUENCE = _word(" lastSequence: ")
PRODUCER_ID = _word(" producerId: ")
PRODUCER_EPOCH = _word(" producerEpoch: ")
LEADER_EPOCH = _word(" partitionLeaderEpoch: ")
# A word for each combination of the three bits of the attributes from TRANSACTIONAL on.
FLAGS = len(_words)
for _bits in range(8):
    _flags = [str(bool(_bits & bit)).lower() for bit in (1, 2)]
    _horizon = "[" if _bits & 4 else ".empty position: "
    _word(f" isTransactional: {_flags[0]} isControl: {_flags[1]} deleteHorizonMs: OptionalLong{_horizon}")
HORIZON_END = _word("] position: ")
LEGACY_OFFSET = _word("offset: ")
POSITION = _word(" position: ")
SIZE = _word(" size: ")
MAGIC = _word(" magic: ")
# A word for each number that a codec may have.
CODECS = len(_words)
for _name in ("none", "gzip", "snappy", "lz4", "zstd", "unknown", "unknown", "unknown"):
    _word(f" compresscodec: {_name} crc: ")
IS_VALID = _word(" isvalid: false\n")  # the next word is for true
_word(" isvalid: true\n")

WORDS = np.frombuffer("".join(_words).encode("ascii"), np.uint8).copy()
WORD_ENDS = np.cumsum([len(word) for word in _words])
LINE_FEED, COMMA, CLOSING = 10, 44, 93


PARTS_SHAPE = (2, 16)  # the words and the numbers of the line of a batch


def _size(batches: BatchTable, rows: RecordTable) -> int:
    text_size = int(rows["key_size"].sum() + rows["value_size"].sum())
    return 400 * (len(batches) + len(rows)) + headers_work(rows) + text_size


@kernel(size=lambda _data, batches, _batches_end, rows, *_: _size(batches, rows))
def write_lines(
    data: Bytes,
    batches: BatchTable,
    batches_end: int,
    rows: RecordTable,
    flags: int,
    base_position: int,
    at: tuple[int, int, int],
    out: Bytes,
    gaps: NDArray[np.int64],
    parts: NDArray[np.int64],
) -> tuple[int, int, int, tuple[int, int, int]]:
    """Write the lines of these rows; the line of each batch comes before the lines of its records.

    `at` is (row, first batch whose line is not written, offset of the record before); batches before
    `batches_end` that have no line yet get one at the end. `base_position` is the position of data[0] in the
    file. `gaps` gets (offset, offset of the next record) if the second is not the number after the first.
    `parts` is working memory of PARTS_SHAPE. The caller allocates it, because a kernel that allocates memory
    cannot become an image (`images.py`).
    Returns (bytes written, gaps written, why it stopped, at).
    """
    row_index, due, _ = at
    last_offset: Any = np.int64(at[2])  # an int64 wraps around in the same way, compiled or not
    used = 0
    gaps_count = 0
    while row_index < len(rows):
        row: Any = rows[row_index]
        index = row.batch
        while due <= index:
            if len(out) - used < LONGEST_BATCH:
                return used, gaps_count, FULL, (row_index, due, last_offset)
            used = write_batch(batches[due], base_position, parts, out, used)
            due += 1
        batch: Any = batches[index]
        is_control = batch.magic == 2 and batch.attributes & CONTROL_BIT != 0
        if flags & OPEN == 0 and (flags & ALL_BY_HAND != 0 or (is_control and flags & CONTROL_BY_HAND != 0)):
            return used, gaps_count, BY_HAND, (row_index, due, last_offset)
        if len(out) - used < needed_size(row) or gaps_count == len(gaps):
            return used, gaps_count, FULL, (row_index, due, last_offset)
        if last_offset != NO_OFFSET and row.offset != last_offset + 1:
            gaps[gaps_count, 0] = last_offset
            gaps[gaps_count, 1] = row.offset
            gaps_count += 1
        last_offset = row.offset
        if flags & METADATA != 0:
            used = _write_metadata(data, row, batch, out, used)
        if flags & CONTENTS != 0 and not is_control:
            used = _write_contents(data, row, flags & METADATA == 0, out, used)
        if flags & OPEN == 0:
            out[used] = LINE_FEED
            used += 1
        row_index += 1
    while due < batches_end:
        if len(out) - used < LONGEST_BATCH:
            return used, gaps_count, FULL, (row_index, due, last_offset)
        used = write_batch(batches[due], base_position, parts, out, used)
        due += 1
    return used, gaps_count, DONE, (row_index, due, last_offset)


@inlined
def needed_size(row: Any) -> Any:
    """How much room a record's line may take."""
    text_size = max(row.key_size, 0) + np.int64(max(row.value_size, 0)) + row.headers_size
    return LONGEST_RECORD + WIDEST * text_size + row.headers_count


@kernel
def write_batch(batch: Any, base_position: int, parts: NDArray[np.int64], out: Bytes, at: int) -> Any:
    """Write the line of one batch, at most LONGEST_BATCH bytes; returns the position after it.

    It first collects the words and the number after each, then writes them in one loop: twenty separate calls
    would take LLVM four seconds to compile.
    """
    attributes = np.int64(batch.attributes)
    words, numbers = parts[0], parts[1]
    if batch.magic == 2:
        words[0], numbers[0] = BASE_OFFSET, batch.base_offset
        words[1], numbers[1] = LAST_OFFSET, batch.last_offset
        words[2], numbers[2] = COUNT, batch.records_count
        words[3], numbers[3] = BASE_SEQUENCE, batch.base_sequence
        last_sequence = sequence_after(
            batch.base_sequence, wrapped_difference(batch.last_offset, batch.base_offset)
        )
        words[4], numbers[4] = LAST_SEQUENCE, last_sequence
        words[5], numbers[5] = PRODUCER_ID, batch.producer_id
        words[6], numbers[6] = PRODUCER_EPOCH, batch.producer_epoch
        words[7], numbers[7] = LEADER_EPOCH, batch.partition_leader_epoch
        words[8] = FLAGS + ((attributes >> FLAGS_SHIFT) & 7)
        count = 9
        if attributes & HORIZON_BIT != 0:
            numbers[8] = batch.base_timestamp
            words[9] = HORIZON_END
            count = 10
    else:
        words[0], numbers[0] = LEGACY_OFFSET, batch.last_offset
        words[1] = POSITION
        count = 2
    numbers[count - 1] = base_position + batch.position
    words[count], numbers[count] = _timestamp_type(batch), batch.max_timestamp
    words[count + 1], numbers[count + 1] = SIZE, batch["size"]  # `.size` is 1 if this runs as plain Python
    words[count + 2], numbers[count + 2] = MAGIC, batch.magic
    words[count + 3], numbers[count + 3] = CODECS + (attributes & CODEC_MASK), batch.crc
    for i in range(count + 4):
        at = write_number(out, _put(out, at, words[i]), numbers[i])
    return _put(out, at, IS_VALID + (1 if batch.valid else 0))


@inlined
def sequence_after(base_sequence: int, delta: int) -> Any:
    """A sequence number `delta` further on; after 2^31 - 1 it continues at 0. Kafka: incrementSequence."""
    if base_sequence == -1:
        return -1
    sequence = np.int64(base_sequence) + delta
    return sequence - INT32_MAX - 1 if sequence > INT32_MAX else sequence


@inlined
def _write_metadata(data: Bytes, row: Any, batch: Any, out: Bytes, at: int) -> int:
    at = write_number(out, _put(out, at, RECORD_OFFSET), np.int64(row.offset))
    at = write_number(out, _put(out, at, _timestamp_type(batch)), np.int64(row.timestamp))
    at = write_number(out, _put(out, at, KEY_SIZE), np.int64(row.key_size))
    at = write_number(out, _put(out, at, VALUE_SIZE), np.int64(row.value_size))
    if batch.magic == 2:
        sequence = -1
        if batch.base_sequence >= 0:
            sequence = sequence_after(batch.base_sequence, wrapped_difference(row.offset, batch.base_offset))
        at = write_number(out, _put(out, at, SEQUENCE), np.int64(sequence))
        at = _put(out, at, HEADER_KEYS)
        if row.headers_count > 0:
            at = _write_header_keys(data, row.headers_position, row.headers_size, row.headers_count, out, at)
        out[at] = CLOSING
        at += 1
    else:
        at = _write_legacy_crc(data, row, batch.magic, out, at)
    return at


@kernel
def _write_header_keys(data: Bytes, position: int, size: int, count: int, out: Bytes, at: int) -> int:
    """Write the keys of a record's headers, with commas between them; the decoder has checked their sizes."""
    end = position + size
    for i in range(count):
        if i > 0:
            out[at] = COMMA
            at += 1
        key_size, position = varint(data, position, end)
        at = write_text(data, position, position + key_size, out, at)
        value_size, position = varint(data, position + key_size, end)
        position += max(value_size, 0)
    return at


@kernel
def _write_legacy_crc(data: Bytes, row: Any, magic: int, out: Bytes, at: int) -> int:
    """Write the message's own checksum: every v0 and v1 message has one, inner messages too.

    The `headers_position` of the row is the end of the message.
    """
    start = row.key_position - (30 if magic == 1 else 22)
    stored = load_u32(data, start + 12)
    is_valid = stored == crc32_zlib(data, start + 16, row.headers_position)
    return write_number(out, _put(out, at, RECORD_CRC + (1 if is_valid else 0)), np.int64(stored))


@inlined
def _write_contents(data: Bytes, row: Any, starts_line: bool, out: Bytes, at: int) -> int:
    if starts_line and (row.key_size >= 0 or row.value_size >= 0):
        at = _put(out, at, INDENT)
    if row.key_size >= 0:
        at = write_text(data, row.key_position, row.key_position + row.key_size, out, _put(out, at, KEY))
    if row.value_size >= 0:
        at = write_text(
            data, row.value_position, row.value_position + row.value_size, out, _put(out, at, PAYLOAD)
        )
    return at


@inlined
def _timestamp_type(batch: Any) -> int:
    if batch.magic == 0:
        return NO_TIMESTAMP_TYPE
    return LOG_APPEND_TIME if batch.attributes & APPEND_TIME_BIT != 0 else CREATE_TIME


@kernel
def _put(out: Bytes, at: int, word: Any) -> Any:
    """Write one of the words; returns the position after it."""
    start = WORD_ENDS[word - 1] if word > 0 else 0
    size = WORD_ENDS[word] - start
    copy_bytes(out, at, WORDS, start, size)
    return at + size
