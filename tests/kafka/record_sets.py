"""Record sets of every format, healthy and not, for Kafka's validation and ours."""

from __future__ import annotations

import random
from typing import Any

from stratalog.records.batch import BatchHeader, write_crc
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from tests.kafka.oracle import RecordsOracle
from tests.kafka.producer_histories import _marker
from tests.kafka.validation_oracle import DAY, HOUR, NOW


def _records(chance: random.Random, *, headers: bool) -> list[Record]:
    oddity = chance.random()
    records = []
    for offset in range(chance.choice([1, 1, 2, 3, 5, 40])):
        timestamp = NOW - chance.randrange(HOUR)
        if oddity < 0.1:
            timestamp = -1
        elif oddity < 0.4 and chance.random() < 0.4:
            timestamp = NOW + chance.choice([1, HOUR, HOUR + 1, 3 * HOUR, -HOUR - 1, -30 * DAY])
        key = None if chance.random() < 0.05 else chance.randbytes(chance.randrange(6))
        value = None if chance.random() < 0.1 else b"value" * chance.randrange(20)
        pairs: tuple[tuple[str, bytes | None], ...] = ()
        if headers and chance.random() < 0.3:
            pairs = (("h", chance.choice([None, b"", b"x"])),)
        records.append(Record(offset, timestamp, key, value, pairs))
    return records


def v2_set(chance: random.Random) -> bytes:
    """Mostly one good batch; otherwise one with a wrong header, a marker, no batch, or two batches."""
    kind = chance.random()
    if kind < 0.05:
        return _marker(chance.randrange(3), epoch=0, coordinator_epoch=0, offset=0, commit=True)
    if kind < 0.07:
        return b""
    codec = chance.choice([Codec.NONE, Codec.NONE, *Codec])
    options = BatchOptions(codec=codec)
    if chance.random() < 0.3:
        transactional = chance.random() < 0.5
        options = BatchOptions(
            codec=codec, producer_id=5, producer_epoch=1, base_sequence=9, is_transactional=transactional
        )
    batch = bytearray(build_batch(_records(chance, headers=True), options))
    header = BatchHeader.unpack(batch)
    if kind < 0.3:
        delta = header.last_offset_delta
        change: dict[str, int] = chance.choice(
            [
                {"last_offset_delta": delta + 1},
                {"last_offset_delta": -1},
                {"records_count": header.records_count + 1},
                {"records_count": header.records_count - 1},
                {"records_count": header.records_count + 1, "last_offset_delta": delta + 1},
                {"records_count": 0},
                {"records_count": -3},
                {"attributes": header.attributes | 0x08},  # says LogAppendTime
                {"attributes": header.attributes | 0x08, "max_timestamp": -1},
                {"attributes": header.attributes | 0x10},
                {"attributes": header.attributes | 0x20},
                {"attributes": header.attributes | 0x40},
                {"producer_id": 7, "base_sequence": -1},
                {"max_timestamp": NOW + 99},
                {"base_timestamp": -5, "max_timestamp": -5},
                {"base_timestamp": NOW + 50 * DAY},
            ]
        )
        batch[:61] = header._replace(**change).pack()
        write_crc(batch, 0, len(batch))
    return bytes(batch) * (2 if kind > 0.97 else 1)


def legacy_set(chance: random.Random, kafka: RecordsOracle) -> bytes:
    magic = chance.randrange(2)
    codec = chance.choice(["none", "none", "gzip", "snappy", "lz4"])
    records = [
        {
            "timestamp": record.timestamp,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
        }
        for record in _records(chance, headers=False)
    ]
    options: dict[str, Any] = {}
    if magic == 1 and chance.random() < 0.15:
        options = {"timestampType": "LogAppendTime", "logAppendTime": NOW - 5}
    data = kafka.build(records, magic=magic, codec=codec, **options)
    if chance.random() < 0.1:
        other = 1 - magic
        data += kafka.build([{"timestamp": NOW, "key": "6b", "value": "76"}], magic=other, baseOffset=99)
    return data
