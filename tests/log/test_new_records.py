"""Records, times and offsets that callers pass in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog import NewRecord, PartitionLog, open_log
from stratalog.errors import CorruptRecordError, InvalidBatchError, UsageError, WrongTypeError
from stratalog.log.new_records import to_columns, to_record
from stratalog.records.build import BatchOptions, build_batch
from stratalog.records.compression import Codec
from tests import naive
from tests.log.api.opened import values
from tests.log.model import NOW, batch

CONTENT = st.one_of(st.none(), st.binary(max_size=200))


def test_a_timestamp_is_now_unless_given(log: PartitionLog) -> None:
    log.append(b"now")
    log.append(b"then", timestamp=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))

    assert [record.timestamp for record in log.records()] == [NOW, 1_700_000_000_000]


def test_a_time_is_its_very_millisecond(log: PartitionLog) -> None:
    may_day_ms, thousand = 1_083_369_600_000, range(1000)
    times = [datetime(2004, 5, 1, 0, 0, 0, 1000 * ms, tzinfo=UTC) for ms in thousand]
    log.append_many([NewRecord(b"", timestamp=time) for time in times])

    assert [record.timestamp for record in log.records()] == [may_day_ms + ms for ms in thousand]
    assert [log.offset_for_time(time) for time in times] == list(thousand)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_whatever_is_bytes_is_taken(log: PartitionLog, kind: Callable[[bytes], Any]) -> None:
    log.append(kind(b"value"), key=kind(b"key"), headers=[("name", kind(b"1"))])
    log.append_many([kind(b"another")])

    found = [(record.key, record.value, record.headers) for record in log.records()]
    assert found == [(b"key", b"value", (("name", b"1"),)), (None, b"another", ())]


def test_records_of_one_log_can_be_appended_to_another(log: PartitionLog, tmp_path: Path) -> None:
    log.append_many([NewRecord(b"a", b"k", [("h", b"1")], NOW), b"b"])

    with open_log(tmp_path / "copy-0", create=True) as copy:
        copy.append_many(log.records())
        assert [r[3:9] for r in copy.records()] == [r[3:9] for r in log.records()]


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_batch_that_is_cut_off_is_not_passed_over_in_silence(log: PartitionLog, keep_offsets: bool) -> None:
    whole = bytes(batch(b"a"))

    for data in (whole[:-1], whole[:5], whole + whole[:-1]):
        with pytest.raises(CorruptRecordError, match="the last batch is cut off"):
            log.append_batch(data, keep_offsets=keep_offsets)
    with pytest.raises(UsageError, match="nothing to append"):
        log.append_batch(b"", keep_offsets=keep_offsets)

    assert log.end_offset == 0


@pytest.mark.parametrize("offset", [1.5, 1.0, "1", None])
def test_an_offset_that_is_no_whole_number_ruins_no_log(directory: Path, offset: Any) -> None:
    with open_log(directory, create=True) as log:
        log.append_many([b"a"])
        log.append_many([b"b"])
        for change in (log.delete_records, log.truncate_to, log.log.truncate_fully_and_start_at):
            with pytest.raises(UsageError, match="is not a whole number"):
                change(offset)

    with open_log(directory) as log:
        assert values(log.records()) == [b"a", b"b"]


def test_true_is_neither_an_offset_nor_a_time(log: PartitionLog) -> None:
    log.append_many([b"a", b"b", b"c"])

    for call in (log.truncate_to, log.delete_records, log.records):
        with pytest.raises(WrongTypeError, match="the offset True is not a whole number"):
            call(True)
    for asked in (lambda: log.append(b"d", timestamp=True), lambda: log.offset_for_time(True)):
        with pytest.raises(WrongTypeError, match="the time True is neither"):
            asked()
    assert (log.start_offset, log.end_offset) == (0, 3)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=20))
def test_values_as_columns_make_the_batch_of_the_same_records(values: list[bytes]) -> None:
    columns = to_columns(values, NOW)

    assert columns is not None
    inside = [naive.Record(offset, NOW, None, value) for offset, value in enumerate(values)]
    assert build_batch(columns) == naive.encode_batch(inside)


@given(
    st.lists(
        st.builds(NewRecord, CONTENT, CONTENT, st.just(()), st.one_of(st.none(), st.integers(0, 2**42))),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(Codec),
)
def test_records_as_columns_make_the_same_batch(records: list[NewRecord], codec: Codec) -> None:
    columns, options = to_columns(records, NOW), BatchOptions(codec=codec)

    assert columns is not None
    rows = [to_record(offset, record, NOW) for offset, record in enumerate(records)]
    assert build_batch(columns, options) == build_batch(rows, options)


@pytest.mark.parametrize(
    "odd",
    [
        "text",
        7,
        bytearray(b"v"),
        NewRecord("text"),  # type: ignore[arg-type]
        NewRecord(b"v", bytearray(b"k")),
        NewRecord(b"v", None, (("h", b"c"),)),
        NewRecord(b"v", None, []),
        NewRecord(b"v", None, None),  # type: ignore[arg-type]
        NewRecord(b"v", None, (), True),
        NewRecord(b"v", None, (), 1.5),  # type: ignore[arg-type]
    ],
)
def test_records_of_unusual_types_are_looked_at_one_by_one(odd: object) -> None:
    assert to_columns([NewRecord(b"v")] * 10 + [odd], NOW) is None  # type: ignore[list-item]
    assert to_columns([b"v"] * 10 + [odd], NOW) is None  # type: ignore[list-item]


@pytest.mark.parametrize("count", [1, 4, 5, 300])
def test_lists_of_any_length_are_read_as_they_were_appended(log: PartitionLog, count: int) -> None:
    made = [NewRecord(b"v%d" % number, b"k" if number % 3 else None, (), number) for number in range(count)]

    log.append_many(made)
    log.append_many([record.value or b"" for record in made])

    found = [(each.value, each.key, each.timestamp) for each in log.records(end_offset=count)]
    assert found == [(each.value, each.key, each.timestamp) for each in made]
    assert [each.value for each in log.records(count)] == [each.value for each in made]


def test_many_values_that_do_not_fit_one_batch_are_divided(tmp_path: Path) -> None:
    with open_log(tmp_path / "small-0", create=True, config={"max.message.bytes": 2000}) as log:
        log.append_many([b"%04d" % number * 25 for number in range(100)])

        assert [each.value for each in log.records()] == [b"%04d" % number * 25 for number in range(100)]


@pytest.mark.parametrize("timestamp", [-2, 2**63])
def test_a_wrong_timestamp_among_many_is_refused(log: PartitionLog, timestamp: int) -> None:
    with pytest.raises(InvalidBatchError):
        log.append_many([NewRecord(b"v", None, (), 5)] * 9 + [NewRecord(b"v", None, (), timestamp)])
