"""Prepares a set for a leader's append: checks every record, and assigns offsets and timestamps.

If possible, a batch is kept unchanged, and only fields of its header are set: base offset, leader epoch,
timestamp type and largest timestamp. It is rewritten if the topic's `compression.type` requires another
codec, or if a set of an old format has to become a v2 batch (`rebuild.py`). Kafka: LogValidator
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from stratalog.config import LogConfig
from stratalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordValidationError,
    StratalogError,
)
from stratalog.log.append import AppendInfo, too_large
from stratalog.log.origin import AppendOrigin
from stratalog.log.rebuild import decode_all, rebuild
from stratalog.records.batch import NO_TIMESTAMP, Attributes
from stratalog.records.compression import DEFAULT_LIMIT, Codec, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels import validate as kernels
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BATCH, BatchTable
from stratalog.records.reader import BatchRow
from stratalog.records.unpack import Run, invalid_record, next_run
from stratalog.records.walk import walk_batches

_CODECS = {codec.kafka_name: codec for codec in Codec} | {"uncompressed": Codec.NONE}
_CONTROL = int(Attributes.CONTROL)
_PLAIN, _CLIENT = Codec.NONE, AppendOrigin.CLIENT  # looking up an Enum's member takes longer
_ROWS = 256


class ValidatedSet(NamedTuple):
    """A set as it will be written, and its rows.

    `log_append_time` is the time of the append if the topic uses it, else -1. `is_rebuilt` says that the
    records were rewritten, so sizes may differ from what the producer sent.
    """

    data: Bytes
    batches: BatchTable
    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    is_rebuilt: bool


def validate_and_assign_offsets(
    info: AppendInfo,
    *,
    next_offset: int,
    config: LogConfig,
    now_ms: int,
    leader_epoch: int,
    origin: AppendOrigin,
) -> ValidatedSet:
    """Check the set by the topic's rules and give it the offsets from `next_offset` on.

    It changes `info.data`, which is a copy, and the row of its batch, so `info` must not be used afterwards.
    InvalidRecordError for a wrong batch. If records break a rule, the error names them: InvalidTimestampError
    if one of these rules is about timestamps, otherwise RecordValidationError.
    """
    batches = info.batches
    target = target_codec(config, info.source_codec)
    append_time = config.message_timestamp_type == "LogAppendTime"
    rules = kernels.RecordRules(
        "compact" in config.cleanup_policy,
        not append_time,
        now_ms,
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
    )
    is_plain = info.source_codec is _PLAIN
    if is_plain and target is _PLAIN and len(batches) == 1 and info.first_offset >= 0:
        return _check_plain(info, rules, next_offset, leader_epoch, origin)  # v2: the usual case
    if not len(batches):
        raise InvalidRecordError("the bytes to append hold no batch.")
    first = BatchRow._make(batches.item(0))
    if len(batches) > 1 and (first.magic == 2 or not is_plain):
        raise InvalidRecordError(
            f"{len(batches)} batches in one append; a leader accepts one v2 or compressed batch at a time."
        )
    if first.magic < 2:
        rows, data = _check_legacy(info, rules)
    elif is_plain and (target is _PLAIN or first.attributes & _CONTROL):
        return _check_plain(info, rules, next_offset, leader_epoch, origin)  # markers are never compressed
    else:
        if origin is _CLIENT:
            _check_batch(kernels.batch_problem(batches), first)
        if target is info.source_codec:
            return _check_compressed(info, rules, next_offset, leader_epoch)
        rows, data = _check_to_rebuild(info, rules)
    rebuilt = rebuild(
        data,
        rows,
        first,
        next_offset=next_offset,
        leader_epoch=leader_epoch,
        codec=target,
        level=_level(target, config),
        log_append_time=now_ms if append_time else None,
    )
    if len(rebuilt) > config.max_message_bytes:
        raise too_large(len(rebuilt), config.max_message_bytes, 0)
    whole = byte_array(rebuilt)
    (row,) = batches = walk_batches(whole, table=np.empty(1, BATCH), check_crc=False).headers
    stamp = int(row["max_timestamp"])
    log_append_time = now_ms if append_time else NO_TIMESTAMP
    last_offset = next_offset + len(rows) - 1
    return ValidatedSet(whole, batches, next_offset, last_offset, stamp, log_append_time, True)


def target_codec(config: LogConfig, source: Codec) -> Codec:
    """The codec with which a topic stores batches that arrive with this codec."""
    return _CODECS.get(config.compression_type, source)


def _check_plain(
    info: AppendInfo, rules: kernels.RecordRules, next_offset: int, leader_epoch: int, origin: AppendOrigin
) -> ValidatedSet:
    """Check the only batch, v2 and not compressed, and set its offsets."""
    data, batches = info.data, info.batches
    problem, outcome, count, refused, max_timestamp, first_offset = kernels.check_and_stamp(
        data, batches, _thread.rows, rules[:], origin is _CLIENT, next_offset, leader_epoch
    )
    if problem:
        _check_batch(problem, BatchRow._make(batches.item(0)))
    if outcome != decoding.DONE:
        raise invalid_record(batches[0], outcome)
    if refused:
        run = Run(data=data, batches=batches, is_legacy=False)
        raise _refused(run, decode_all(run), rules)
    return _in_place(info, rules, first_offset, next_offset + count - 1, max_timestamp)


def _check_compressed(
    info: AppendInfo, rules: kernels.RecordRules, next_offset: int, leader_epoch: int
) -> ValidatedSet:
    """Check the records of the only batch, v2 and compressed with the topic's codec; set its offsets."""
    run = _unpacked(info.data, info.batches)
    outcome, count, refused, max_timestamp, in_order = kernels.check_records(
        run.data, run.batches, _thread.rows, rules
    )
    if outcome != decoding.DONE:
        raise invalid_record(info.batches[0], outcome)
    if refused:
        raise _refused(run, decode_all(run), rules)
    if not in_order:
        # Kafka notices this too, but fails when it rebuilds the batch, because it has skipped keys and
        # values.
        raise InvalidRecordError("the offsets of its records are not 0, 1, 2 and so on.")
    last_offset = next_offset + count - 1
    stamp = max_timestamp if rules.create_time else rules.now
    first_offset = kernels.stamp_batch(
        info.data, info.batches, last_offset, leader_epoch, not rules.create_time, stamp
    )
    return _in_place(info, rules, first_offset, last_offset, max_timestamp)


def _in_place(
    info: AppendInfo, rules: kernels.RecordRules, first_offset: int, last_offset: int, max_timestamp: int
) -> ValidatedSet:
    """The set unchanged, except for fields of its header."""
    if rules.create_time:
        return ValidatedSet(
            info.data, info.batches, first_offset, last_offset, max_timestamp, NO_TIMESTAMP, False
        )
    return ValidatedSet(info.data, info.batches, first_offset, last_offset, rules.now, rules.now, False)


def _check_batch(problem: int, batch: BatchRow) -> None:
    """InvalidRecordError if a v2 batch as a whole is wrong."""
    if problem == kernels.FINE:
        return
    if problem == kernels.WRONG_COUNT:
        offsets_count = batch.last_offset - batch.base_offset + 1
        reason = f"{batch.records_count} records, but offsets for {offsets_count}."
    elif problem == kernels.IS_CONTROL:
        reason = "a control batch; clients write records, and only brokers write markers."
    else:
        reason = (
            f"producer {batch.producer_id} has base sequence {batch.base_sequence}; "
            "sequences are never negative."
        )
    raise InvalidRecordError(reason, position=batch.position)


def _check_to_rebuild(info: AppendInfo, rules: kernels.RecordRules) -> tuple[decoding.RecordTable, Bytes]:
    """Check the records of a v2 batch that gets another codec; returns them, and the data they are in."""
    if info.batches["attributes"][0] & _CONTROL:
        raise InvalidRecordError("a compressed control batch cannot be given another codec.")
    run = _unpacked(info.data, info.batches)
    rows = decode_all(run)
    if kernels.check_rows(run.batches, rows, 0, rules)[0]:
        raise _refused(run, rows, rules)
    return rows, run.data


def _check_legacy(info: AppendInfo, rules: kernels.RecordRules) -> tuple[decoding.RecordTable, Bytes]:
    """Check the records of a set of an old format; returns them, and the data they are in.

    Such a set has a single compressed message, or any number of plain messages, each of which is a batch. If
    messages of another magic follow, those before them are checked first, because Kafka goes from batch to
    batch.
    """
    magic = info.batches["magic"]
    others = np.flatnonzero(magic != magic[0])
    run = _unpacked(info.data, info.batches[: int(others[0])] if others.size else info.batches)
    rows = decode_all(run)
    is_compressed = info.source_codec is not Codec.NONE
    other_magic = _check_inner(run, int(magic[0])) if is_compressed else -1
    if other_magic >= 0 or kernels.check_rows(run.batches, rows, 0, rules)[0]:
        raise _refused(run, rows, rules, other_magic)
    if others.size:
        raise InvalidRecordError(
            f"magic {magic[others[0]]} follows magic {magic[0]}; all messages of a set must have the same.",
            position=int(info.batches["position"][others[0]]),
        )
    return rows, run.data


def _check_inner(run: Run, magic: int) -> int:
    """The index of the first inner message of another magic, or -1; CorruptRecordError for a wrong CRC."""
    (row,) = run.batches
    other_magic, wrong_crc = kernels.check_inner_messages(
        run.data, int(row["records_position"]), int(row["records_end"]), magic
    )
    if wrong_crc >= 0:
        raise CorruptRecordError(
            f"the CRC of message {wrong_crc} inside the compressed set is wrong.",
            position=int(row["position"]),
        )
    return other_magic


def _unpacked(data: Bytes, batches: BatchTable) -> Run:
    """The batch with its records decompressed in one array; `batches` is not changed."""
    run = next_run(data, batches.copy(), 0, _thread.scratch, DEFAULT_LIMIT)
    if run.problem is not None:
        raise run.problem
    return run


class _Thread(threading.local):
    """Memory to decompress and decode into, for each thread: creating it in every append takes too long."""

    def __init__(self) -> None:
        self.scratch = Scratch(64 << 10)
        self.rows = np.empty(_ROWS, decoding.RECORD)


_thread = _Thread()


def _refused(
    run: Run, rows: decoding.RecordTable, rules: kernels.RecordRules, other_magic: int = -1
) -> StratalogError:
    """The error that names every refused record.

    Plain v0 and v1 messages are separate batches: the error names only the first, as record 0 of its batch.
    """
    append_time = run.batches["attributes"] & Attributes.LOG_APPEND_TIME != 0
    errors, about_time, batch = [], False, 0
    for index, (timestamp, key_size, batch) in enumerate(rows[["timestamp", "key_size", "batch"]].tolist()):
        problem = kernels.record_problem(key_size, timestamp, bool(append_time[batch]), rules)
        if index == other_magic:
            problem = kernels.WRONG_MAGIC
        if problem != kernels.FINE:
            about_time |= problem in (kernels.OUT_OF_RANGE, kernels.CLAIMS_APPEND_TIME)
            is_alone = len(run.batches) > 1
            errors.append(RecordError(0 if is_alone else index, _reason(problem, timestamp, rules)))
            if is_alone:
                break
    shown = " ".join(f"Record {error.batch_index}: {error.reason}" for error in errors[:3])
    summary = f"{len(errors)} of {len(rows)} records are refused. {shown}"
    if about_time:
        return InvalidTimestampError(summary, record_errors=tuple(errors))
    position = int(run.batches["position"][batch])
    return RecordValidationError(summary, position=position, record_errors=tuple(errors))


def _reason(problem: int, timestamp: int, rules: kernels.RecordRules) -> str:
    if problem == kernels.NO_KEY:
        return "a compacted topic does not accept a record without a key."
    if problem == kernels.OUT_OF_RANGE:
        earliest, latest = rules.now - rules.before_max, rules.now + rules.after_max
        return f"its timestamp {timestamp} is not within [{earliest}, {latest}]."
    if problem == kernels.CLAIMS_APPEND_TIME:
        return "its batch says LogAppendTime, which only a broker may set."
    return "its magic is not that of the message around it."


def _level(codec: Codec, config: LogConfig) -> int | None:
    """The topic's compression level; None is the codec's default."""
    if config.compression_type == "producer":
        return None
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)
