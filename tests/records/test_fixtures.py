"""Every fixture decodes to exactly what Kafka reads: its dump tool in text, its record classes in bytes.

The text is compared as a whole: from what was decoded the dump is written again, and must be the tool's own
down to the last character. Both readers have to pass: the one by one, and the one of columns.
"""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from stratalog.records.build import encode_batch
from stratalog.records.compression import CODEC_MASK, decompress
from stratalog.records.control import EndTxnMarker
from stratalog.records.internal import control_contents
from stratalog.records.reader import read_batches
from tests.fixtures.catalog import Partition, partitions
from tests.records.described import Json, Read, described, rows_of_columns, rows_one_by_one

EVERY_PARTITION = pytest.mark.parametrize("partition", partitions(), ids=str)


def dump_text(file: Path, partition: Partition, batches: list[Json]) -> str:
    """What the dump tool prints of a segment or a snapshot with its contents."""
    offset, _, epoch = file.stem.partition("-")
    first = (
        f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"
        if epoch
        else f"Log starting offset: {int(offset)}"
    )
    lines = [f"Dumping {partition.name}/{file.name}", first]
    for batch in batches:
        lines.append(_batch_line(batch))
        lines += [_record_line(batch, record) for record in batch["records"]]
    return "".join(line + "\n" for line in lines)


def _batch_line(batch: Json) -> str:
    if batch["magic"] < 2:
        front = f"offset: {batch['lastOffset']}"
    else:
        horizon = batch["deleteHorizonMs"]
        front = (
            f"baseOffset: {batch['baseOffset']} lastOffset: {batch['lastOffset']}"
            f" count: {len(batch['records'])}"
            f" baseSequence: {batch['baseSequence']} lastSequence: {batch['lastSequence']}"
            f" producerId: {batch['producerId']} producerEpoch: {batch['producerEpoch']}"
            f" partitionLeaderEpoch: {batch['partitionLeaderEpoch']}"
            f" isTransactional: {_java(batch['isTransactional'])} isControl: {_java(batch['isControl'])}"
            f" deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        )
    return (
        f"{front} position: {batch['position']} {batch['timestampType']}: {batch['maxTimestamp']}"
        f" size: {batch['size']} magic: {batch['magic']} compresscodec: {batch['codec']} crc: {batch['crc']}"
        f" isvalid: {_java(batch['valid'])}"
    )


def _record_line(batch: Json, record: Json) -> str:
    key, value = _bytes(record["key"]), _bytes(record["value"])
    line = (
        f"| offset: {record['offset']} {batch['timestampType']}: {record['timestamp']}"
        f" keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)}"
    )
    if batch["magic"] < 2:
        line += f" isValid: {_java(record['valid'])} crc: {record['crc']}"
    else:
        header_keys = ",".join(key for key, _ in record["headers"])
        line += f" sequence: {record['sequence']} headerKeys: [{header_keys}]"
    if batch["isControl"]:
        return line + _control_text(key, value)
    if key is not None:
        line += f" key: {_java_text(key)}"
    if value is not None:
        line += f" payload: {_java_text(value)}"
    return line


def _control_text(key: bytes | None, value: bytes | None) -> str:
    contents = control_contents(key, value)
    if contents is not None:
        return f" {contents}"
    marker = EndTxnMarker.parse(key, value)
    return f" endTxnMarker: {marker.control_type.name} coordinatorEpoch: {marker.coordinator_epoch}"


def _java(flag: bool) -> str:
    return "true" if flag else "false"


def _java_text(data: bytes) -> str:
    return data.decode("utf-8", "java")


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Java replaces an encoded surrogate, whole or cut, by one character; Python makes one of each byte."""
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.start + 3]
    if len(bad) > 1 and bad[0] == 0xED and 0xA0 <= bad[1] <= 0xBF:
        return "\ufffd", error.start + (3 if len(bad) > 2 and 0x80 <= bad[2] <= 0xBF else 2)
    return "\ufffd", error.end


codecs.register_error("java", _replace_as_java)


def _bytes(data: str | None) -> bytes | None:
    return None if data is None else bytes.fromhex(data)


BOTH_READERS = pytest.mark.parametrize("read", [rows_one_by_one, rows_of_columns])


@EVERY_PARTITION
@BOTH_READERS
def test_every_batch_and_record_is_exactly_what_kafka_reads(partition: Partition, read: Read) -> None:
    for file in [*partition.logs, *partition.checkpoints]:
        data = file.read_bytes()
        found = list(described(data, read))

        assert found == [
            {name: value for name, value in batch.items() if name != "file"}
            for batch in partition.batches(file)
        ]


@EVERY_PARTITION
@BOTH_READERS
def test_the_dump_written_from_what_is_decoded_is_the_dump_tools(partition: Partition, read: Read) -> None:
    written = ""
    for file in [*partition.logs, *partition.checkpoints]:
        data = file.read_bytes()
        written += dump_text(file, partition, list(described(data, read)))

    printed = partition.dump.read_bytes().decode()
    assert printed[: len(written)] == written
    rest = printed[len(written) :]
    assert not rest or rest.startswith("Dumping ")


@EVERY_PARTITION
def test_uncompressed_batches_are_encoded_again_to_the_same_bytes(partition: Partition) -> None:
    for file in [*partition.logs, *partition.checkpoints]:
        for batch in read_batches(file.read_bytes()):
            if batch.facts.magic == 2 and not batch.codec:
                records = list(batch.records(stored_timestamps=True))
                assert encode_batch(batch.header, records) == batch.raw


@EVERY_PARTITION
def test_the_records_of_compressed_batches_are_encoded_again_to_the_same_bytes(partition: Partition) -> None:
    for file in [*partition.logs, *partition.checkpoints]:
        for batch in read_batches(file.read_bytes()):
            if batch.facts.magic == 2 and batch.codec:
                header = batch.header._replace(attributes=batch.header.attributes & ~CODEC_MASK)
                records = list(batch.records(stored_timestamps=True))
                assert encode_batch(header, records)[61:] == decompress(batch.codec, batch.raw[61:])


def test_there_are_fixtures_of_all_releases_and_states() -> None:
    found = {(partition.release, partition.state) for partition in partitions()}

    assert found == {
        (release, state) for release in ("2.8.2", "3.9.2", "4.3.1") for state in ("clean", "killed")
    }
