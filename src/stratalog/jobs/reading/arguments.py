"""Converts the arguments of a read in Python to options of the source: paths, topics, times."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from stratalog.errors import UsageError, WrongTypeError
from stratalog.files.entries import Path
from stratalog.files.storage import readable_path

Time = datetime | int | str
"""A point in time: a datetime (UTC if it has no zone), milliseconds since 1970, or ISO 8601.

NumPy's integers and datetime64 are accepted too.
"""


def option_texts(
    path: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    **options: object,
) -> dict[str, str]:
    """The arguments of a read as options of the source."""
    if isinstance(path, str | bytes | os.PathLike) or not isinstance(path, Iterable):
        path = [path]
    given = {name: _text(value) for name, value in options.items()}
    if topics is not None:
        given["subscribe"] = ",".join(_names("topics", topics))
    if since is not None:
        given["startingTimestamp"] = str(_milliseconds("since", since))
        given.setdefault("startingOffsetsByTimestampStrategy", "latest")
    if until is not None:
        given["endingTimestamp"] = str(_milliseconds("until", until))
    given["paths"] = json.dumps([readable_path(each) for each in path])
    return given


def whole_number(name: str, given: object, *, least: int = 0) -> int:
    """An integer that a caller gave, NumPy's too; UsageError for another type, or a number below `least`."""
    try:
        found = None if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        found = None
    if found is None:
        raise WrongTypeError(
            f"{name} is {given!r}, of type {type(given).__name__}: it must be a whole number."
        )
    if found < least:
        raise UsageError(f"{name} is {found}: it must be a number from {least} on.")
    return found


def _names(name: str, given: object) -> list[str]:
    found = [given] if isinstance(given, str) else given
    if isinstance(found, Iterable) and not isinstance(found, bytes):
        found = list(found)
        if all(isinstance(each, str) for each in found):
            return found
    raise WrongTypeError(f"{name} is {given!r}: it must be a name, or a list of names.")


def _milliseconds(name: str, time: Time) -> int:
    if isinstance(time, bool):
        raise WrongTypeError(f"{name} is {time}: it must be a time.")
    if isinstance(time, int):
        return time
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise UsageError(f"{name} is {time!r}: write it like 2026-11-15T12:00:00+01:00.") from None
    if not isinstance(time, datetime):
        found = _numpy_milliseconds(time)
        if found is not None:
            return found
        raise WrongTypeError(
            f"{name} is {time!r}, of type {type(time).__name__}: give a datetime, whole milliseconds since "
            "1970, or text like 2026-11-15T12:00:00+01:00."
        )
    if time != time:  # pandas.NaT, which is a datetime that equals nothing
        raise UsageError(f"{name} is {time}: it must be a time.")
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    # Times of records are whole milliseconds, so this time is cut to its millisecond.
    return int(zoned.timestamp()) * 1000 + zoned.microsecond // 1000


def _numpy_milliseconds(time: object) -> int | None:
    """The milliseconds of one of NumPy's integers or times; None for anything else, and for NaT."""
    import numpy as np

    if isinstance(time, np.integer) and not isinstance(time, np.timedelta64):
        return int(time)
    if isinstance(time, np.datetime64) and not np.isnat(time):
        return int(time.astype("datetime64[ms]").astype(np.int64))
    return None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
