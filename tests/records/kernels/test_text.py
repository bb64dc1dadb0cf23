"""Lines of batches and records, against a slow twin of Java's printing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given

from stratalog.records.build import Record
from stratalog.records.compression import Codec
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels import text as kernel
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.text import sequence_after
from stratalog.records.walk import walk_batches
from tests import naive
from tests.records.kernels.test_characters import java_text
from tests.records.strategies import Encoded, v2_batches

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def record_line(record: Record, batch: naive.Batch) -> str:
    time = "LogAppendTime" if batch.attributes & 8 else "CreateTime"
    sequence = -1
    if batch.base_sequence >= 0:
        sequence = (batch.base_sequence + record.offset - batch.base_offset) % 2**31
    sizes = [-1 if field is None else len(field) for field in (record.key, record.value)]
    line = (
        f"| offset: {record.offset} {time}: {record.timestamp} keySize: {sizes[0]} valueSize: {sizes[1]} "
        f"sequence: {sequence} headerKeys: [{','.join(key for key, _ in record.headers)}]"
    )
    if record.key is not None:
        line += f" key: {java_text(record.key)}"
    if record.value is not None:
        line += f" payload: {java_text(record.value)}"
    return line + "\n"


def written(data: bytes, *, room: int, flags: int = kernel.METADATA | kernel.CONTENTS) -> str:
    """The lines of uncompressed v2 batches, through a buffer of `size` bytes with a guard after it."""
    array = byte_array(data)
    headers = walk_batches(data).headers
    rows = np.zeros(64, decoding.RECORD)
    count, _, _ = decoding.decode(array, headers, rows, (0, 0, 0), INT64_MAX, INT64_MIN, INT64_MAX)
    memory = np.full(room + 64, 0xAA, np.uint8)
    gaps, parts = np.zeros((2, 2), np.int64), np.zeros(kernel.PARTS_SHAPE, np.int64)
    lines, at, why = b"", (0, 0, -1), kernel.FULL
    while why != kernel.DONE:
        used, gaps_count, why, at = kernel.write_lines(
            array, headers, len(headers), rows[:count], flags, 0, at, memory[:room], gaps, parts
        )
        assert used or gaps_count or why == kernel.DONE
        lines += memory[:used].tobytes()
    assert (memory[room:] == 0xAA).all()
    return lines.decode()


@pytest.mark.parametrize(
    ("base_sequence", "delta", "sequence"),
    [(-1, 5, -1), (0, 0, 0), (7, 3, 10), (2**31 - 1, 1, 0), (2**31 - 2, 4, 2)],
)
def test_sequences_go_on_at_zero(base_sequence: int, delta: int, sequence: int) -> None:
    assert sequence_after(base_sequence, delta) == sequence


@given(v2_batches(codec=Codec.NONE))
def test_the_lines_of_records_are_those_of_the_twin(batch: Encoded) -> None:
    [header], _, _ = naive.walk(batch.data)
    needed = 3 * len(batch.data) + kernel.LONGEST_BATCH

    lines = written(batch.data, room=needed)

    _, _, records = lines.partition("\n")
    assert records == "".join(record_line(record, header) for record in batch.records)
    assert written(batch.data, room=8 * needed) == lines


@given(v2_batches(codec=Codec.NONE))
def test_the_line_of_a_batch_has_the_fields_of_its_header(batch: Encoded) -> None:
    [header], _, _ = naive.walk(batch.data)

    line, _, _ = written(batch.data, room=1 << 14).partition("\n")

    fields = dict(re.findall(r"(\w+): (\S+)", line))
    assert fields.pop("LogAppendTime" if header.attributes & 8 else "CreateTime") == str(header.max_timestamp)
    assert fields == {
        "baseOffset": str(header.base_offset),
        "lastOffset": str(header.last_offset),
        "count": str(len(batch.records)),
        "baseSequence": str(header.base_sequence),
        "lastSequence": str(sequence_after(header.base_sequence, header.last_offset - header.base_offset)),
        "producerId": str(header.producer_id),
        "producerEpoch": str(header.producer_epoch),
        "partitionLeaderEpoch": str(header.partition_leader_epoch),
        "isTransactional": "true" if header.attributes & 16 else "false",
        "isControl": "false",
        "deleteHorizonMs": "OptionalLong.empty",
        "position": "0",
        "size": str(len(batch.data)),
        "magic": "2",
        "compresscodec": "none",
        "crc": str(header.crc),
        "isvalid": "true",
    }
