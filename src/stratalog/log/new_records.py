"""Converts the caller's records and times to those of the records layer."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, NamedTuple, Protocol, cast

from stratalog.errors import CorruptRecordError, UsageError, WrongTypeError
from stratalog.records.batch import LOG_OVERHEAD
from stratalog.records.build import Header, Record, columns_of
from stratalog.records.kernels.encode import RecordColumns

_BYTES, _CONTENT, _TIMES = {bytes}, {bytes, NoneType}, {int, NoneType}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NewRecord(NamedTuple):
    """A record to append. A value of None is a tombstone; a timestamp of None is the time of the append."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp: int | datetime | None = None


class AppendableRecord(Protocol):
    """Any object with these four attributes: a NewRecord, or a ConsumerRecord from another log."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[Header]: ...
    @property
    def timestamp(self) -> int | datetime | None: ...


def to_record(offset: int, record: bytes | AppendableRecord, now: int) -> Record:
    """The record to encode; UsageError for content that a log cannot store."""
    if isinstance(record, bytes):
        return Record(offset, now, None, record)
    if isinstance(record, bytearray | memoryview):
        return Record(offset, now, None, bytes(record))
    try:
        value, key, headers, timestamp = record.value, record.key, record.headers, record.timestamp
    except AttributeError as error:
        raise WrongTypeError(f"{record!r} is neither bytes nor a record: make a NewRecord of it.") from error
    timestamp = now if timestamp is None else _timestamp(timestamp)
    pairs = _headers(headers) if headers != () else ()
    return Record(offset, timestamp, _content("key", key), _content("value", value), pairs)


def to_columns(records: Sequence[bytes | AppendableRecord], now: int) -> RecordColumns | None:
    """Many records of the usual types as columns, without an object for each; None for any others.

    The result is the same as with `to_record`, which also refuses wrong types.
    """
    kinds = set(map(type, records))
    if kinds == _BYTES:
        return columns_of(cast("Sequence[bytes]", records), None, now)
    if kinds != {NewRecord}:
        return None
    values, keys, headers, timestamps = zip(*cast("Sequence[NewRecord]", records), strict=True)
    if set(map(type, headers)) != {tuple} or any(headers):
        return None
    time_kinds = set(map(type, timestamps))
    if not (set(map(type, values)) | set(map(type, keys))) <= _CONTENT or not time_kinds <= _TIMES:
        return None
    times = timestamps if time_kinds == {int} else [now if time is None else time for time in timestamps]
    return columns_of(values, keys, times)


def check_records(records: object) -> None:
    """WrongTypeError unless this is an iterable of records; a single value is not one."""
    if isinstance(records, bytes | bytearray | memoryview | str) or not isinstance(records, Iterable):
        what = "None" if records is None else f"of type {type(records).__name__}"
        raise WrongTypeError(
            f"append_many takes a list of records, and this is {what}. For one record there is append."
        )


def _content(name: str, content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    what = "text" if isinstance(content, str) else f"of type {type(content).__name__}"
    raise WrongTypeError(f"the {name} {content!r} is {what}; a log keeps bytes: encode it.")


def _headers(headers: Any) -> tuple[Header, ...]:
    pairs: list[Header] = []
    for header in headers if isinstance(headers, Iterable) else (headers,):
        match header:
            case (str() as name, content):
                if not _is_unicode(name):
                    raise UsageError(f"the header's name {name!r} cannot be written in UTF-8.")
                pairs.append((name, _content("header", content)))
            case _:
                raise WrongTypeError(
                    f"the header {header!r} is not a pair of a name (text) and a value (bytes or None)."
                )
    return tuple(pairs)


def _is_unicode(name: str) -> bool:
    """Whether UTF-8 can encode the text: Python uses lone surrogates for bytes that are not text."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def to_offset(offset: int) -> int:
    """An offset that a caller gave; UsageError for anything but a whole number, as for 1.5 or None."""
    try:
        return _index(offset)
    except TypeError as error:
        raise WrongTypeError(f"the offset {offset!r} is not a whole number.") from error


def to_milliseconds(time: datetime | int) -> int:
    """A moment to look for, in milliseconds since 1970."""
    milliseconds = _timestamp(time)
    if milliseconds < 0 and not isinstance(time, datetime):
        raise UsageError(f"time {time}: milliseconds since 1970 cannot be negative.")
    return milliseconds


def _timestamp(time: datetime | int) -> int:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise UsageError(f"{time} has no time zone, so which moment it means depends on the machine.")
        # In integers: with a float of seconds, one time in seventy comes out a millisecond early.
        return (time - _EPOCH) // timedelta(milliseconds=1)
    try:
        return _index(time)
    except TypeError as error:
        raise WrongTypeError(
            f"the time {time!r} is neither a datetime nor whole milliseconds since 1970."
        ) from error


def _index(number: int) -> int:
    """The value as an integer, also NumPy's. TypeError for True and False, which Python counts as 1 and 0."""
    if isinstance(number, bool):
        raise TypeError(f"{number} is a bool")
    return operator.index(number)


def check_whole(data: bytes) -> None:
    """CorruptRecordError if the last batch is incomplete; a leader would drop it silently. UsageError if
    empty."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise WrongTypeError(f"a batch must be bytes, but this is of type {type(data).__name__}.")
    if not len(data):
        raise UsageError("the batch is empty: there is nothing to append.")
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        end = position + LOG_OVERHEAD + max(size, 0)
        if end > len(data):
            left = len(data) - position
            raise CorruptRecordError(
                f"the last batch is cut off: {left} bytes are left of it.", position=position
            )
        position = end
