"""Records of tiered storage, as Kafka 4.3.1's own serializer wrote and its dump tool prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.records.build import BatchOptions, Record, build_batch
from tests.cli.dumps import dump

Capture = pytest.CaptureFixture[bytes]

# What RemoteLogMetadataSerde wrote, and the toString of what it read from that.
REMOTE_LOG_METADATA = {
    (
        "010000076f72646572730959a67391374afabe3ed7d9d3ad9c7e00000003008e45c1090ecbf455f341e19660f5"
        "373100000000000000000a0000000000000014000000070000018bcfe568000000018bcfe56801030000000000"
        "0000000000000a0000000003000000000000000f0000001000000000"
    ): (
        "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=CVmmc5E3Sv"
        "q-PtfZ062cfg:orders-3, id=jkXBCQ7L9FXzQeGWYPU3MQ}, startOffset=10, endOffset=20, brokerId="
        "7, maxTimestampMs=1700000000000, eventTimestampMs=1700000000001, segmentLeaderEpochs={0=10"
        ", 3=15}, segmentSizeInBytes=4096, customMetadata=Optional.empty, state=COPY_SEGMENT_STARTE"
        "D, txnIdxEmpty=false}"
    ),
    (
        "010000076f72646572730959a67391374afabe3ed7d9d3ad9c7e00000003008e45c1090ecbf455f341e19660f5"
        "373100000000000000000a000000000000001400000007ffffffffffffffff0000018bcfe56801020000000200"
        "0000000000000a0000001000040102030101000101"
    ): (
        "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=CVmmc5E3Sv"
        "q-PtfZ062cfg:orders-3, id=jkXBCQ7L9FXzQeGWYPU3MQ}, startOffset=10, endOffset=20, brokerId="
        "7, maxTimestampMs=-1, eventTimestampMs=1700000000001, segmentLeaderEpochs={2=10}, segmentS"
        "izeInBytes=4096, customMetadata=Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_FINI"
        "SHED, txnIdxEmpty=true}"
    ),
    (
        "010100076f72646572730959a67391374afabe3ed7d9d3ad9c7e00000003008e45c1090ecbf455f341e19660f5"
        "373100000000080000018bcfe56802000200"
    ): (
        "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=CVmm"
        "c5E3Svq-PtfZ062cfg:orders-3, id=jkXBCQ7L9FXzQeGWYPU3MQ}, customMetadata=Optional.empty, st"
        "ate=DELETE_SEGMENT_STARTED, eventTimestampMs=1700000000002, brokerId=8}"
    ),
    ("010200076f72646572730959a67391374afabe3ed7d9d3ad9c7e0000000300000000090000018bcfe568030000"): (
        "RemotePartitionDeleteMetadata{topicPartition=CVmmc5E3Svq-PtfZ062cfg:orders-3, state=DELETE"
        "_PARTITION_MARKED, eventTimestampMs=1700000000003, brokerId=9}"
    ),
    ("010200076f72646572730959a67391374afabe3ed7d9d3ad9c7e0000000300000000090000018bcfe568030200"): (
        "RemotePartitionDeleteMetadata{topicPartition=CVmmc5E3Svq-PtfZ062cfg:orders-3, state=DELETE"
        "_PARTITION_FINISHED, eventTimestampMs=1700000000003, brokerId=9}"
    ),
    (
        "0103008e45c1090ecbf455f341e19660f53731000000000000000a0000000000000014000000070000018bcfe5"
        "68000000018bcfe568010300000000000000000000000a000000000c000000000000000f000000100002010101"
        "000101"
    ): (
        "RemoteLogSegmentMetadataSnapshot{segmentId=jkXBCQ7L9FXzQeGWYPU3MQ, startOffset=10, endOffs"
        "et=20, maxTimestampMs=1700000000000, segmentLeaderEpochs={0=10, 12=15}, segmentSizeInBytes"
        "=4096, customMetadata=Optional[CustomMetadata{1 bytes}], state=COPY_SEGMENT_FINISHED, txnI"
        "dxEmpty=true}"
    ),
}


def payload(capture: Capture, tmp_path: Path, value: bytes | None) -> str:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(build_batch([Record(0, 5, None, value)], BatchOptions()))
    return dump(capture, "--remote-log-metadata-decoder", log).lines[-1].partition(" payload: ")[2]


@pytest.mark.parametrize(("raw", "text"), REMOTE_LOG_METADATA.items())
def test_each_type_is_printed_as_by_kafka(raw: str, text: str, tmp_path: Path, capsysbinary: Capture) -> None:
    assert payload(capsysbinary, tmp_path, bytes.fromhex(raw)) == text


@pytest.mark.parametrize("raw", REMOTE_LOG_METADATA)
def test_a_value_that_is_cut_is_told_of_and_skipped(raw: str, tmp_path: Path, capsysbinary: Capture) -> None:
    whole = bytes.fromhex(raw)
    for size in range(0, len(whole), 7):
        printed = payload(capsysbinary, tmp_path, whole[:size])

        assert printed.startswith("Error at offset 0, skipping. ")


@pytest.mark.parametrize(
    "value",
    [None, b"\x02\x00\x00", b"\x01\x09\x00", b"\x01\x00\x07"],
    ids=["null", "frame", "type", "version"],
)
def test_an_unknown_value_is_told_of_and_skipped(
    value: bytes | None, tmp_path: Path, capsysbinary: Capture
) -> None:
    assert payload(capsysbinary, tmp_path, value).startswith("Error at offset 0, skipping. ")
