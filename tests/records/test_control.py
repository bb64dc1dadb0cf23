"""Control records, against the bytes of markers that Kafka 4.3.1 wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidBatchError, InvalidRecordError
from stratalog.records.control import (
    ControlType,
    EndTxnMarker,
    build_control_key,
    parse_control_key,
)

# A COMMIT marker at offset 983 with coordinator epoch 347, as Kafka wrote it: key and value are at the end.
COMMIT_BATCH = bytes.fromhex(
    "00000000000003d7000000420000001d02172b6dc800300000000000000000000003e800000000000003e8"
    "0000000000000049000dffffffff000000012000000008000000010c00000000015b00"
)
COMMIT_KEY, COMMIT_VALUE = COMMIT_BATCH[66:70], COMMIT_BATCH[71:77]


def test_a_marker_of_kafka_is_read() -> None:
    assert EndTxnMarker.parse(COMMIT_KEY, COMMIT_VALUE) == (ControlType.COMMIT, 347, 0)


def test_a_marker_is_built_as_kafka_builds_it() -> None:
    marker = EndTxnMarker(ControlType.COMMIT, 347)

    assert marker.key_bytes() == COMMIT_KEY
    assert marker.value_bytes() == COMMIT_VALUE


def test_types_have_kafkas_numbers() -> None:
    names = [
        "ABORT",
        "COMMIT",
        "LEADER_CHANGE",
        "SNAPSHOT_HEADER",
        "SNAPSHOT_FOOTER",
        "KRAFT_VERSION",
        "KRAFT_VOTERS",
    ]

    assert [parse_control_key(bytes([0, 0, 0, number]))[1] for number in range(7)] == [
        ControlType[name] for name in names
    ]


@pytest.mark.parametrize("number", [-32768, -1, 7, 32767])
def test_a_type_without_a_name_stays_a_number(number: int) -> None:
    version, control_type = parse_control_key(bytes(2) + number.to_bytes(2, "big", signed=True))

    assert (version, control_type) == (0, number)
    assert not isinstance(control_type, ControlType)


def test_a_newer_version_is_read_as_the_current_one() -> None:
    assert parse_control_key(b"\x00\x05\x00\x01 and more") == (5, ControlType.COMMIT)
    assert EndTxnMarker.parse(COMMIT_KEY, b"\x00\x07\x00\x00\x01\x5b and more") == (
        ControlType.COMMIT,
        347,
        7,
    )


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1", b"\x80\0\0\0"])
def test_a_short_key_or_a_negative_version_is_invalid(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        parse_control_key(key)


@pytest.mark.parametrize("value", [None, b"", bytes(5), b"\xff\xff\0\0\1\x5b"])
def test_a_short_marker_or_a_negative_version_is_invalid(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        EndTxnMarker.parse(COMMIT_KEY, value)


@pytest.mark.parametrize("number", [-1, 2, 7])
def test_other_control_records_are_no_markers(number: int) -> None:
    with pytest.raises(InvalidRecordError, match=f"control type {number} "):
        EndTxnMarker.parse(bytes(2) + number.to_bytes(2, "big", signed=True), COMMIT_VALUE)


def test_what_is_no_marker_is_not_built() -> None:
    with pytest.raises(InvalidBatchError):
        EndTxnMarker(ControlType.LEADER_CHANGE, 0).key_bytes()
    with pytest.raises(InvalidBatchError):
        EndTxnMarker(ControlType.ABORT, 1 << 31).value_bytes()


@given(st.sampled_from([ControlType.ABORT, ControlType.COMMIT]), st.integers(-(2**31), 2**31 - 1))
def test_markers_come_back(control_type: ControlType, coordinator_epoch: int) -> None:
    marker = EndTxnMarker(control_type, coordinator_epoch)

    assert EndTxnMarker.parse(memoryview(marker.key_bytes()), memoryview(marker.value_bytes())) == marker


@pytest.mark.parametrize("control_type", list(ControlType))
def test_keys_come_back(control_type: ControlType) -> None:
    assert parse_control_key(build_control_key(control_type)) == (0, control_type)
