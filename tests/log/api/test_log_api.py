"""What people do with a log, whoever opened it: `open_log`, read_only or not, or a `LogManager`."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stratalog import Codec, LogManager, NewRecord, open_log
from stratalog.errors import LogClosedError, UsageError, WrongTypeError
from stratalog.log.api.consume import IsolationName, isolation_of
from stratalog.log.api.log_api import LogApi, codec_of
from stratalog.records.compression import CodecName


@pytest.fixture(params=["open_log", "LogManager"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogApi]:
    if request.param == "open_log":
        with open_log(tmp_path / "orders-0", create=True) as opened:
            yield opened
    else:
        with LogManager([tmp_path], high_watermark_follows_end=True) as manager:
            yield manager.get_or_create_log(("orders", 0), is_new=True)


def test_a_manager_hands_out_logs_that_append_and_read_like_those_of_open_log(log: LogApi) -> None:
    assert log.append(b"a", key=b"k", headers=[("name", b"x")], timestamp=1000) == 0
    assert log.append_many(
        [b"b", NewRecord(b"c", timestamp=datetime(2026, 1, 1, tzinfo=UTC))], codec="zstd"
    ) == (1, 2)
    assert log.append_arrow(pa.table({"value": [b"d", b"e"]})) == (3, 4)

    assert [record.value for record in log] == [b"a", b"b", b"c", b"d", b"e"]
    assert [record.offset for record in log.records(1, end_offset=3)] == [1, 2]
    assert [record.offset for record in log.records(isolation="read_committed")] == [0, 1, 2, 3, 4]
    assert log.to_arrow(["offset", "value"])["value"].to_pylist() == [b"a", b"b", b"c", b"d", b"e"]
    assert [record.value for record in log.tail(3, timeout_ms=0)] == [b"d", b"e"]
    assert (log.topic, log.partition, log.start_offset, log.end_offset) == ("orders", 0, 0, 5)
    assert log.offset_for_time(1000) == 0
    assert log.offset_of_newest() is not None


def test_a_log_can_be_gone_through_more_than_once_and_ends_where_it_ended(log: LogApi) -> None:
    log.append_many([b"a", b"b"])

    seen = []
    for record in log:
        seen.append(record.value)
        log.append(b"c")

    assert seen == [b"a", b"b"]
    assert len([*log]) == 4


def test_more_than_one_batch_can_hold_was_refused(log: LogApi) -> None:
    values = [bytes([number % 256]) * 1000 for number in range(5000)]  # five times max.message.bytes

    assert log.append_many(values) == (0, 4999)
    assert log.append_many((value for value in values), codec="lz4") == (5000, 9999)

    assert [record.value for record in log] == values * 2


def test_a_log_that_is_closed_refuses_as_a_closed_file_does(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", create=True)
    log.close()

    for use in (lambda: log.append(b"a"), log.records, log.tail, log.tail_async, lambda: iter(log)):
        with pytest.raises(ValueError, match="closed") as caught:
            use()
        assert isinstance(caught.value, LogClosedError)


WRONG_TYPES: dict[str, Callable[[Any], object]] = {
    "append text": lambda log: log.append("text"),
    "append a number as key": lambda log: log.append(b"x", key=5),
    "headers that are a dictionary": lambda log: log.append(b"x", headers={"a": b"b"}),
    "headers that are a number": lambda log: log.append(b"x", headers=5),
    "a time that is text": lambda log: log.append(b"x", timestamp="2026-01-01"),
    "append_many of None": lambda log: log.append_many(None),
    "append_many of a number": lambda log: log.append_many(5),
    "append_many of one value": lambda log: log.append_many(b"abc"),
    "append_many of text": lambda log: log.append_many("abc"),
    "append_many of dictionaries": lambda log: log.append_many([{"value": b"x"}]),
    "append_batch of None": lambda log: log.append_batch(None),
    "append_arrow of a dictionary": lambda log: log.append_arrow({"value": [b"a"]}),
    "records from text": lambda log: log.records("1"),
    "records from half an offset": lambda log: log.records(1.5),
    "records up to text": lambda log: log.records(end_offset="5"),
    "records since text": lambda log: log.records(since="yesterday"),
    "tail from text": lambda log: log.tail("1"),
    "tail with a poll of text": lambda log: log.tail(poll_ms="1"),
    "tail with a timeout of text": lambda log: log.tail(timeout_ms="1"),
    "tail with a stop that is a number": lambda log: log.tail(stop=5),
    "tail_async with a stop that is a number": lambda log: log.tail_async(stop=5),
    "columns that are text": lambda log: log.arrow_batches("value"),
    "columns that are a number": lambda log: log.arrow_batches(5),
    "a time of None": lambda log: log.offset_for_time(None),
    "truncate to text": lambda log: log.truncate_to("1"),
    "delete before text": lambda log: log.delete_records("1"),
}


@pytest.mark.parametrize("wrong", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_a_wrong_type_is_our_own_type_error(log: LogApi, wrong: Callable[[Any], object]) -> None:
    log.append(b"before")

    with pytest.raises(TypeError) as caught:
        wrong(log)

    assert isinstance(caught.value, WrongTypeError)
    assert [record.value for record in log] == [b"before"]


OPENINGS: dict[str, Callable[[Path], object]] = {
    "no path": lambda _: open_log(None),  # type: ignore[arg-type]
    "a number as path": lambda _: open_log(5),  # type: ignore[arg-type]
    "settings that are text": lambda path: open_log(path, create=True, config="x"),  # type: ignore[arg-type]
    "settings that are a list": lambda path: open_log(path, create=True, config=["x"]),  # type: ignore[arg-type]
    "a setting without a name": lambda path: open_log(path, create=True, config={5: 5}),  # type: ignore[dict-item]
    "a topic id that is a number": lambda path: open_log(path, create=True, topic_id=5),  # type: ignore[arg-type]
    "a quarantine that is a number": lambda path: open_log(path, create=True, quarantine=5),  # type: ignore[arg-type]
    "one directory for a manager": lambda path: LogManager(str(path)),
    "a number for a manager": lambda _: LogManager(5),  # type: ignore[arg-type]
    "None among directories": lambda _: LogManager([None]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
def test_a_wrong_type_opens_nothing(tmp_path: Path, opening: Callable[[Path], object]) -> None:
    with pytest.raises(TypeError) as caught:
        opening(tmp_path / "orders-0")

    assert isinstance(caught.value, WrongTypeError)
    assert [*tmp_path.iterdir()] == []


def test_an_error_of_the_callers_own_iterator_is_not_changed(log: LogApi) -> None:
    def records() -> Iterator[bytes]:
        yield b"a"
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine") as caught:
        log.append_many(records())
    assert type(caught.value) is TypeError
    assert log.end_offset == 0


def test_the_types_of_names_have_every_name() -> None:
    assert [codec_of(name) for name in typing.get_args(CodecName)] == [*Codec]
    assert len({isolation_of(name) for name in typing.get_args(IsolationName)}) == 2
    assert typing.get_type_hints(open_log)["codec"] is CodecName
    for method in (LogApi.records, LogApi.tail, LogApi.tail_async, LogApi.arrow_batches):
        assert typing.get_type_hints(method, localns={"pa": pa})["isolation"] is IsolationName


@pytest.mark.parametrize("name", ["zip", "", None, 5, []])
def test_a_codec_or_an_isolation_that_there_is_not_names_those_there_are(log: LogApi, name: Any) -> None:
    with pytest.raises(UsageError, match="none, gzip, snappy, lz4, zstd"):
        codec_of(name)
    with pytest.raises(UsageError, match="read_uncommitted, read_committed"):
        log.records(isolation=name)


@pytest.mark.parametrize("columns", [[5], [None], 5, None, {"key"}, b"key"])
def test_columns_that_are_not_names_are_refused_in_words(log: LogApi, columns: Any) -> None:
    with pytest.raises(WrongTypeError, match=r"^columns is "):
        log.to_arrow(columns)
