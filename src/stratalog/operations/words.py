"""Numbers and lists of names as people read them, in tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_MOST_NAMES = 3


def size_text(size: int) -> str:
    """1234567 as 1.2 MB: powers of ten, as disks are sold and Kafka's metrics are read."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def time_text(timestamp_ms: int) -> str:
    """A Kafka timestamp in UTC; `-` if negative: -1 means none. Past the year 9999, the number itself."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"  # a producer may send microseconds
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def span_text(span_ms: int) -> str:
    """604800000 as 7 days, 68000 as 1 min 8 s: the two largest units. Below a second, milliseconds."""
    if span_ms < 1000:
        return f"{span_ms} ms"
    left, parts = span_ms // 1000, list[str]()
    for unit, seconds in (("day", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count:
            parts.append(counted(count, unit) if unit == "day" else f"{count} {unit}")
        elif parts:
            break  # the units of a span are neighbours
    return " ".join(parts[:2])


def counted(count: int, word: str) -> str:
    """`1 log`, `2 logs`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def first_names(names: Sequence[str], word: str = "log") -> str:
    """`a-0, a-1, a-2 and 9 more (12 logs)`: the names, or the first few of many with their number."""
    if len(names) == 1:
        return names[0]
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{rest} ({counted(len(names), word)})"


def sentence(reason: str) -> str:
    """The reason of an error as a sentence of a report: a capital letter first, a full stop last."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."
