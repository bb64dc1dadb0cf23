"""Arrow values as Python's own, and as the text of JSON."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa


def column_values(column: pa.Array) -> list[Any]:
    """The values of a column. Timestamps and dates that Python's `datetime` cannot hold become text."""
    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        if pa.types.is_timestamp(column.type):
            return [None if time is None else _time(time) for time in column.cast(pa.int64()).to_pylist()]
        if pa.types.is_date32(column.type):
            return [None if day is None else _day(day) for day in column.cast(pa.int32()).to_pylist()]
        raise
    return found


def _time(micros: int) -> datetime | str:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return f"{np.datetime64(micros, 'us')}+00:00"


def _day(days: int) -> str:
    return str(np.datetime64(days, "D"))


def json_text(value: object, **style: Any) -> str:  # Any: what json.dumps takes
    """A value as JSON. JSON has no NaN or infinity: they become text, as in Spark's to_json."""
    try:
        return json.dumps(value, default=plain, allow_nan=False, **style)
    except ValueError:
        return json.dumps(_without_nan(value), default=plain, **style)


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value


def plain(value: object) -> object:
    """Converts what JSON has no form for. Bytes become text, with \\xNN for bytes that are not UTF-8."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, int | float) else str(value)


def milliseconds_of(moment: datetime | None) -> int | None:
    """A time in milliseconds since 1970, as in Kafka."""
    return None if moment is None else round(moment.timestamp() * 1000)
