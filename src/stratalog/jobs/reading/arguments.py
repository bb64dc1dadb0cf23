"""Converts the arguments of a read in Python to options of the source: paths, topics, times."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from stratalog.errors import UsageError, WrongTypeError
from stratalog.files.entries import Path
from stratalog.files.storage import readable_path

Time = datetime | int | str
"""A point in time: a datetime (UTC if it has no zone), milliseconds since 1970, or ISO 8601."""


def option_texts(
    path: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    **options: object,
) -> dict[str, str]:
    """The arguments of a read as options of the source."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    given = {name: _text(value) for name, value in options.items()}
    if topics is not None:
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    if since is not None:
        given["startingTimestamp"] = str(_milliseconds("since", since))
        given.setdefault("startingOffsetsByTimestampStrategy", "latest")
    if until is not None:
        given["endingTimestamp"] = str(_milliseconds("until", until))
    given["paths"] = json.dumps([readable_path(each) for each in paths])
    return given


def _milliseconds(name: str, time: Time) -> int:
    if isinstance(time, bool):
        raise UsageError(f"{name} is {time}: it must be a time.")
    if isinstance(time, int):
        return time
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise UsageError(f"{name} is {time!r}: write it like 2026-11-15T12:00:00+01:00.") from None
    if not isinstance(time, datetime):
        raise WrongTypeError(
            f"{name} is {time!r}, of type {type(time).__name__}: give a datetime, whole milliseconds since "
            "1970, or text like 2026-11-15T12:00:00+01:00."
        )
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    # Records have milliseconds: within the same one, records before and after this time look the same.
    return int(zoned.timestamp()) * 1000 + zoned.microsecond // 1000


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
