"""The first checks of a set of batches before an append, before the log's lock is taken.

A set is the data of one append call: one batch from a producer, or many from a leader. Every header is read
and every CRC checked; nothing is decompressed. The leader's next step is in `validation.py`, the rules for
producers are in `producers/analysis.py`. Kafka: UnifiedLog.analyzeAndValidateRecords
"""

from __future__ import annotations

import logging
import struct
from typing import Any, NamedTuple

import numpy as np

from stratalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    StratalogError,
)
from stratalog.limits import INT32_MAX, INT64_MAX
from stratalog.log.origin import AppendOrigin
from stratalog.records.batch import LOG_OVERHEAD
from stratalog.records.compression import Codec
from stratalog.records.kernels import validate as kernels
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BATCH, END, FULL, MAGIC_AT, SMALLEST_V0, BatchTable
from stratalog.records.kernels.walk import walk as walk_kernel
from stratalog.records.walk import WalkStop, explain_stop, wrong_crc

logger = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1
LENGTH_AT = 8
_LENGTH = struct.Struct(">i")
_CODECS = tuple(Codec)
# looking up an Enum's member takes longer than looking up a name
_CLIENT, _, _REPLICATION, _RAFT_LEADER = AppendOrigin
_MOST_ROWS = 4096  # at first; a set with more batches gets a larger table


class AppendInfo(NamedTuple):
    """The facts about a set, and how much of it is to be appended.

    `data` ends after the last batch that is to be appended, `batches` are its rows (dtype `BATCH`). A v0 or
    v1 set does not state its first offset, which is then UNKNOWN_OFFSET. `has_producers` says that a batch
    has a producer id and has to be checked against that producer's state.
    """

    data: Bytes
    batches: BatchTable
    first_offset: int
    last_offset: int
    last_offset_of_first_batch: int
    last_leader_epoch: int
    max_timestamp: int
    source_codec: Codec
    has_producers: bool

    @property
    def size(self) -> int:
        """Bytes to append; 0 if there is no whole batch: then there is nothing to do."""
        return self.data.size

    @property
    def first_known_offset(self) -> int:
        """The first offset; if that is unknown, the last offset of the first batch."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @property
    def records_count(self) -> int:
        """The number of offsets that the set takes up; 0 if its first offset is unknown."""
        known = self.first_offset >= 0 and self.last_offset >= 0
        return self.last_offset - self.first_offset + 1 if known else 0


def analyze(
    data: Any,  # any object with the buffer protocol
    *,
    origin: AppendOrigin,
    max_message_bytes: int | None,
    leader_epoch: int,
) -> AppendInfo:
    """Check a set as it arrives. The caller's memory is not changed; for a follower it is not copied.

    `max_message_bytes` None accepts batches of any size, as a follower does. A torn last batch is left out. A
    follower also leaves out the first batch above its `leader_epoch` and all after it: they come from a
    leader that it does not follow yet. If any batch is invalid, an error refuses the whole set.
    """
    # A leader writes into the headers. It does so in a copy, so that a refused or failed append can be tried
    # again.
    array = np.array(np.frombuffer(data, np.uint8)) if origin.assigns_offsets else byte_array(data)
    rules = (
        origin is _CLIENT,
        leader_epoch if origin is _RAFT_LEADER else kernels.ANY_EPOCH,
        leader_epoch if origin is _REPLICATION else INT32_MAX,
        INT64_MAX if max_message_bytes is None else max_message_bytes,
    )
    batches = _new_table(1 if origin.assigns_offsets else _expected_rows(array))
    count, position, stop, found = kernels.walk_and_check(array, batches, rules)
    if stop == FULL:
        batches, position, stop = _walk_on(array, batches, position)
        found = kernels.check_set(batches, rules)
    elif count < len(batches):
        batches = batches[:count]
    facts = kernels.SetFacts._make(found)
    if facts.problem != kernels.FINE:
        raise _refused(facts.problem, array, batches[facts.row], kernels.SetRules(*rules))
    if stop != END:
        _check_tail(array, position, WalkStop(stop))
    if not (facts.ascending or origin.assigns_offsets):
        offsets = ", ".join(str(offset) for offset in batches["last_offset"][:20].tolist())
        raise OffsetsOutOfOrderError(f"the batches of a set do not ascend: their last offsets are {offsets}.")
    if facts.batches_count < len(batches):
        _say_skipped(batches[facts.batches_count], leader_epoch)
        batches = batches[: facts.batches_count]
    return AppendInfo(
        array if facts.size == array.size else array[: facts.size],
        batches,
        facts.base_offset if facts.first_magic == 2 else UNKNOWN_OFFSET,
        facts.last_offset,
        facts.last_offset_of_first,
        facts.last_leader_epoch,
        facts.max_timestamp,
        _CODECS[facts.codec],
        facts.has_producers,
    )


def _expected_rows(array: Bytes) -> int:
    """The number of batches if all are as large as the first; a larger table would take longer to make."""
    if array.size <= LOG_OVERHEAD:
        return 1
    length: int = _LENGTH.unpack_from(array.data, LENGTH_AT)[0]
    return min(array.size // (max(length, SMALLEST_V0) + LOG_OVERHEAD) + 1, _MOST_ROWS)


def _new_table(rows: int) -> BatchTable:
    """A table for this many batches; `np.empty` takes twice as long with a structured type."""
    return np.frombuffer(bytearray(rows * BATCH.itemsize), BATCH)


def _walk_on(array: Bytes, table: BatchTable, position: int) -> tuple[BatchTable, int, int]:
    """Walk the rest of a set that has filled its table: it has more batches than expected.

    Returns (rows of all whole batches, position after the last, the kernel's number for why it stopped).
    """
    parts, stop = [table], FULL
    while stop == FULL:
        table = _new_table(_MOST_ROWS)
        count, position, stop = walk_kernel(array, position, array.size, table, True, INT64_MAX)
        parts.append(table[:count])
    return np.concatenate(parts), position, stop


def _check_tail(array: Bytes, position: int, stop: WalkStop) -> None:
    """Raises CorruptRecordError unless the rest is a batch that is cut off.

    Our walk follows the rules for a file. Kafka's reader of a set in memory treats the last few bytes
    differently: it checks the length of a batch even if the bytes end before the magic. Also, it checks first
    whether a batch is cut off, and only then whether the length is too small for the batch's format. Kafka:
    ByteBufferLogInputStream.nextBatchSize
    """
    left = array.size - position
    length = int.from_bytes(array[position + 8 : position + LOG_OVERHEAD].tobytes(), "big", signed=True)
    is_torn = stop is WalkStop.TORN_TAIL
    if left >= LOG_OVERHEAD and length < SMALLEST_V0:
        stop, is_torn = WalkStop.BAD_LENGTH, False
    elif left > MAGIC_AT and array[position + MAGIC_AT] > 2:
        stop, is_torn = WalkStop.BAD_MAGIC, False
    elif length > left - LOG_OVERHEAD:
        is_torn = True
    if not is_torn:
        raise CorruptRecordError(_explain(array, position, stop), position=position)


def _explain(array: Bytes, position: int, stop: WalkStop) -> str:
    if array.size - position <= MAGIC_AT:  # the tail is too short to have a magic
        return "the length found here is not possible for a batch."
    return explain_stop(array, position, array.size, stop)


def _refused(problem: int, array: Bytes, batch: np.void, rules: kernels.SetRules) -> StratalogError:
    position, size = int(batch["position"]), int(batch["size"])
    if problem == kernels.WRONG_CRC:
        return wrong_crc(array, batch)
    if problem == kernels.TOO_LARGE:
        return too_large(size, rules.max_size, position)
    if problem == kernels.NOT_FROM_ZERO:
        reason = f"the base offset of a batch from a client must be 0; this one has {batch['base_offset']}."
    elif problem == kernels.WRONG_EPOCH:
        reason = (
            f"the batch has leader epoch {batch['partition_leader_epoch']}, "
            f"but is appended in epoch {rules.required_epoch}."
        )
    else:
        return _unknown_codec(int(batch["attributes"]), position)
    return InvalidRecordError(reason, position=position)


def too_large(size: int, limit: int, position: int) -> RecordTooLargeError:
    """The error for a batch above max.message.bytes."""
    return RecordTooLargeError(
        f"a batch of {size} bytes; max.message.bytes of this topic is {limit}.", position=position
    )


def _unknown_codec(attributes: int, position: int) -> StratalogError:
    try:
        Codec.from_attributes(attributes)
    except CorruptRecordError as error:
        return error.at(position=position)
    raise AssertionError(f"attributes {attributes:#x} have a known codec")


def _say_skipped(batch: np.void, leader_epoch: int) -> None:
    logger.info(
        "batches from offset %d on are left for later: they have leader epoch %d, this replica follows %d.",
        batch["base_offset"],
        batch["partition_leader_epoch"],
        leader_epoch,
    )
