"""Checks batches that are to be appended: the rules for every batch and for every record.

Kafka: UnifiedLog.analyzeAndValidateRecords, LogValidator
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MIN, INT64_MAX, INT64_MIN
from stratalog.records.kernels.crc32c import crc32_zlib, crc32c
from stratalog.records.kernels.decode import DONE, MORE, RECORD, RecordTable, decode, legacy_entry
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import (
    Bytes,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    wrapped_difference,
)
from stratalog.records.kernels.walk import BATCH, LOG_OVERHEAD, MAGIC_AT, SMALLEST_V2, BatchTable, walk

# Problems of a set.
FINE = 0
WRONG_EPOCH = 1  # a leader of the metadata quorum only writes batches of its own epoch
NOT_FROM_ZERO = 2  # a client does not know offsets: its batches count from 0
TOO_LARGE = 3
WRONG_CRC = 4
UNKNOWN_CODEC = 5

# Problems of a v2 batch as a whole, if a client sends it.
WRONG_COUNT = 1  # its numbers of records and of offsets differ
IS_CONTROL = 2  # only brokers write markers
NO_SEQUENCE = 3  # a producer id, but no sequence number

# Problems of a record.
NO_KEY = 1
OUT_OF_RANGE = 2  # its timestamp is outside the range that the topic allows
CLAIMS_APPEND_TIME = 3  # only a broker sets LogAppendTime
WRONG_MAGIC = 4  # an inner message of another format than its wrapper

NO_PRODUCER_ID = -1
ANY_EPOCH = INT32_MIN
LOG_APPEND_TIME = 8
KNOWN_ATTRIBUTES = 0x7F  # Kafka clears all other bits when it rewrites the attributes
CODEC_MASK = 7
CONTROL = 1 << 5
HIGHEST_CODEC = 4
# To Numba, a plain 0 has another type than an int64: a function that is called with both is compiled twice.
_ZERO: Any = np.int64(0)
ROWS = 256  # how many records `check_ready` decodes at a time


class SetRules(NamedTuple):
    """The rules for a set of batches. It ends before the first one whose epoch is above `highest_epoch`."""

    from_zero: bool
    required_epoch: int
    highest_epoch: int
    max_size: int


class RecordRules(NamedTuple):
    """The rules for the records of a batch; `now` and the bounds are in milliseconds."""

    needs_key: bool
    create_time: bool
    now: int
    before_max: int
    after_max: int


class SetFacts(NamedTuple):
    """What `check_set` found in a set of batches.

    Offsets are those of the batches that will be appended, and -1 if there are none.
    """

    problem: int
    row: int  # the batch that has the problem
    batches_count: int
    size: int
    base_offset: int
    last_offset: int
    last_offset_of_first: int
    last_leader_epoch: int
    max_timestamp: int
    ascending: bool
    codec: int  # of the last compressed batch
    first_magic: int
    has_producers: bool  # whether any batch has a producer id


@kernel(size=lambda data, *_: data.size)
def walk_and_check(
    data: Bytes, table: BatchTable, rules: tuple[bool, int, int, int]
) -> tuple[int, int, int, tuple[Any, ...]]:
    """Walk a set and check the batches that fit the table: the results of `walk` and `check_set` in one call.

    Plain tuples are used instead of SetRules and SetFacts, which would make the call three times as slow.
    """
    count, position, stop = walk(data, _ZERO, data.size, table, True, INT64_MAX)
    return count, position, stop, check_set(table[:count], rules)


@kernel(size=lambda batches, *_: 100 * len(batches))
def check_set(batches: BatchTable, rules: tuple[bool, int, int, int]) -> tuple[Any, ...]:
    """Check the batches of a set in order, up to the first problem.

    `rules` is a SetRules and the result a SetFacts, both as plain tuples.
    """
    from_zero, required_epoch, highest_epoch, max_size = rules
    problem, row, count, size, codec = FINE, -1, 0, 0, 0
    max_timestamp: Any = np.int64(-1)
    last_offset: Any = np.int64(-1)
    ascending, ended, has_producers = True, False, False
    for i in range(len(batches)):
        batch: Any = batches[i]
        row = i
        if required_epoch != ANY_EPOCH and batch.partition_leader_epoch != required_epoch:
            problem = WRONG_EPOCH
            break
        if from_zero and batch.magic == 2 and batch.base_offset != 0:
            problem = NOT_FROM_ZERO
            break
        if ended or batch.partition_leader_epoch > highest_epoch:
            ended = True
            continue
        if batch.last_offset <= last_offset:
            ascending = False
        last_offset = batch.last_offset
        # Not `batch.size`: as plain Python, that is NumPy's own attribute, which is 1.
        batch_size = batch.records_end - batch.position
        if batch_size > max_size:
            problem = TOO_LARGE
            break
        if not batch.valid:
            problem = WRONG_CRC
            break
        max_timestamp = max(max_timestamp, batch.max_timestamp)
        if batch.attributes & CODEC_MASK > HIGHEST_CODEC:
            problem = UNKNOWN_CODEC
            break
        if batch.attributes & CODEC_MASK != 0:
            codec = batch.attributes & CODEC_MASK
        if batch.producer_id > NO_PRODUCER_ID:
            has_producers = True
        count += 1
        size += batch_size
    base: Any = np.int64(-1)
    first_last: Any = np.int64(-1)
    epoch: Any = np.int64(-1)
    magic: Any = np.int64(-1)
    if count > 0:
        first, last = batches[0], batches[count - 1]
        base = first.base_offset
        first_last = first.last_offset
        epoch = np.int64(last.partition_leader_epoch)
        magic = np.int64(first.magic)
    return (
        problem,
        row,
        count,
        size,
        base,
        last_offset,
        first_last,
        epoch,
        max_timestamp,
        ascending,
        codec,
        magic,
        has_producers,
    )


@inlined
def record_problem(key_size: int, timestamp: Any, append_time: bool, rules: RecordRules) -> int:
    """What is wrong with a record, or FINE. `append_time`: its batch says LogAppendTime."""
    if rules.needs_key and key_size < 0:
        return NO_KEY
    if rules.create_time and timestamp != -1:
        behind = wrapped_difference(rules.now, timestamp)
        if behind > rules.before_max or wrapped_difference(0, behind) > rules.after_max:
            return OUT_OF_RANGE
    elif append_time:
        return CLAIMS_APPEND_TIME
    return FINE


@kernel(size=lambda _batches, rows, *_: 100 * len(rows))
def check_rows(
    batches: BatchTable, rows: RecordTable, first: int, rules: RecordRules
) -> tuple[int, Any, Any]:
    """(records refused, largest timestamp, whether offsets are `first`, `first` + 1 ...) of these rows."""
    refused = 0
    max_timestamp: Any = np.int64(-1)
    in_order = True
    for i in range(len(rows)):
        row: Any = rows[i]
        append_time = batches[row.batch].attributes & LOG_APPEND_TIME != 0
        if record_problem(row.key_size, row.timestamp, append_time, rules) != FINE:
            refused += 1
        max_timestamp = max(max_timestamp, row.timestamp)
        if row.offset != first + i:
            in_order = False
    return refused, max_timestamp, in_order


@kernel(size=lambda data, *_: data.size)
def check_records(
    data: Bytes, batches: BatchTable, rows: RecordTable, rules: RecordRules
) -> tuple[int, int, int, Any, Any]:
    """Decode all records of these v2 batches and check each; `rows` is reused working memory.

    Returns (the outcome of `decode`, the number of records, how many of them are refused, their largest
    timestamp, whether their offsets are 0, 1, 2 and so on).
    """
    records, refused = _ZERO, 0
    max_timestamp: Any = np.int64(-1)
    in_order = True
    at = (_ZERO, _ZERO, _ZERO)
    outcome = MORE
    while outcome == MORE:
        count, outcome, at = decode(data, batches, rows, at, INT64_MAX, INT64_MIN, INT64_MAX)
        found, largest, follow = check_rows(batches, rows[:count], records, rules)
        records += count
        refused += found
        max_timestamp = max(max_timestamp, largest)
        in_order = in_order and follow
    return outcome, records, refused, max_timestamp, in_order


@kernel(size=lambda _: 100)
def batch_problem(batches: BatchTable) -> int:
    """What is wrong with the first batch of a table, or FINE. Kafka: LogValidator.validateBatch"""
    batch: Any = batches[0]
    offsets_count = wrapped_difference(batch.last_offset, batch.base_offset) + 1
    if offsets_count <= 0 or batch.records_count != offsets_count:
        return WRONG_COUNT
    if batch.attributes & CONTROL != 0:
        return IS_CONTROL
    if batch.producer_id > NO_PRODUCER_ID and batch.base_sequence < 0:
        return NO_SEQUENCE
    return FINE


@kernel(size=lambda data, *_: data.size)
def check_and_stamp(
    data: Bytes,
    batches: BatchTable,
    rows: RecordTable,
    plain_rules: tuple[bool, bool, int, int, int],
    from_client: bool,
    next_offset: int,
    leader_epoch: int,
) -> tuple[int, int, int, int, Any, Any]:
    """Check the single batch of a set (v2, uncompressed) and its records, and stamp the batch if nothing is
    wrong.

    The batch's largest timestamp becomes that of its records or, with LogAppendTime, the `now` of the rules.
    The rules are a plain tuple, as in `walk_and_check`.

    Returns (problem of the batch, outcome of `decode`, number of records, how many of them are refused, their
    largest timestamp, first offset). If the problem is not FINE, the other items mean nothing. The first
    offset is -1 if the batch was not stamped.
    """
    problem = batch_problem(batches) if from_client else FINE
    if problem != FINE:
        return problem, DONE, 0, 0, np.int64(-1), np.int64(-1)
    needs_key, create_time, now, before_max, after_max = plain_rules
    rules = RecordRules(needs_key, create_time, now, before_max, after_max)
    outcome, records, refused, max_timestamp, _ = check_records(data, batches, rows, rules)
    first_offset: Any = np.int64(-1)
    if outcome == DONE and refused == 0:
        stamp: Any = max_timestamp if rules.create_time else np.int64(rules.now)
        last_offset = next_offset + records - 1
        first_offset = stamp_batch(data, batches, last_offset, leader_epoch, not rules.create_time, stamp)
    return problem, outcome, records, refused, max_timestamp, first_offset


def _ready_us(data: Bytes) -> int:
    """About how many microseconds plain Python takes: 40 for each record that the header counts."""
    count = int.from_bytes(data[57:61].tobytes(), "big")
    return max(data.size, 40 * min(count, data.size))


@kernel(size=lambda data, *_: data.size, plain_us=lambda data, *_: _ready_us(data))
def check_ready(data: Bytes, rules: NDArray[np.int64], now: int) -> tuple[int, Any]:
    """Check whether a client's set is ready to be written once its offsets and epoch are set.

    A ready set is a single valid v2 batch that fills `data`, without attributes or a producer.
    `rules` are (largest size of a batch, whether records need keys, `before_max` and `after_max` of the
    RecordRules): one array, because passing a number costs as much as passing an array.

    Returns (number of records, their largest timestamp), or (0, -1) for any other set.
    """
    other = (0, np.int64(-1))
    if data.size < SMALLEST_V2 + LOG_OVERHEAD or data.size > rules[0]:
        return other
    # The header is checked first: it rules out most other sets, and the CRC takes a hundred times as long.
    if load_u8(data, MAGIC_AT) != 2 or load_i32(data, 8) != data.size - LOG_OVERHEAD:
        return other
    if load_i64(data, 0) != 0 or load_i16(data, 21) != 0 or load_i64(data, 43) > NO_PRODUCER_ID:
        return other
    batches = np.empty(1, BATCH)
    walk(data, _ZERO, data.size, batches, True, INT64_MAX)
    batch: Any = batches[0]
    if not batch.valid or batch_problem(batches) != FINE:
        return other
    record_rules = RecordRules(rules[1] != 0, True, now, rules[2], rules[3])
    rows = np.empty(ROWS, RECORD)
    outcome, records, refused, max_timestamp, _ = check_records(data, batches, rows, record_rules)
    if outcome != DONE or refused > 0 or max_timestamp != batch.max_timestamp:
        return other
    return records, max_timestamp


@kernel(size=lambda data, *_: data.size)
def stamp_batch(
    data: Bytes,
    batches: BatchTable,
    last_offset: int,
    leader_epoch: int,
    append_time: bool,
    max_timestamp: int,
) -> Any:
    """Set offsets, epoch, timestamp type and largest timestamp of a table's first batch, in header and row.

    The batch is v2. Returns its first offset.

    It does what `set_last_offset`, `set_partition_leader_epoch` and `set_max_timestamp` do, in a tenth of the
    time. As there, the CRC is only computed again if the timestamp type or largest timestamp changes.
    """
    row: Any = batches[0]
    position = row.position
    row.base_offset = last_offset - (row.last_offset - row.base_offset)
    row.last_offset = last_offset
    row.partition_leader_epoch = leader_epoch
    _store(data, position, 8, row.base_offset)
    _store(data, position + 12, 4, leader_epoch)
    if (row.attributes & LOG_APPEND_TIME != 0) == append_time and row.max_timestamp == max_timestamp:
        return row.base_offset
    attributes = row.attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME
    if append_time:
        attributes |= LOG_APPEND_TIME
    row.attributes = attributes
    row.max_timestamp = max_timestamp
    _store(data, position + 21, 2, attributes)
    _store(data, position + 35, 8, max_timestamp)
    row.crc = crc32c(data, position + 21, row.records_end)
    _store(data, position + 17, 4, np.int64(row.crc))
    return row.base_offset


@inlined
def _store(data: Bytes, position: int, size: int, value: Any) -> None:
    """Store the low bytes of a number, big endian."""
    for i in range(size):
        data[position + i] = np.uint8((value >> (8 * (size - 1 - i))) & 0xFF)


@kernel(size=lambda _data, position, end, *_: end - position)
def check_inner_messages(data: Bytes, position: int, end: int, magic: int) -> tuple[int, int]:
    """(the first inner message of another magic, the first with a wrong CRC) of an unpacked v0 or v1 set.

    Messages count from 0, and -1 means none. A message of another magic is not checked further. The decoder
    has checked these bytes, so the sizes are right.
    """
    index, other_magic, wrong_crc = 0, -1, -1
    while position < end:
        size = legacy_entry(data, position, end)[0]
        if size < 0:
            break
        if load_u8(data, position + 16) != magic:
            if other_magic < 0:
                other_magic = index
        elif wrong_crc < 0 and load_u32(data, position + 12) != crc32_zlib(
            data, position + 16, position + size
        ):
            wrong_crc = index
        position += size
        index += 1
    return other_magic, wrong_crc
