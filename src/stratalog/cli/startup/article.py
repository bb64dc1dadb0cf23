"""What an article on Kafka's start measured: a 2.x broker, stopped cleanly and after a power cut.

The names of the strategies come from this article. Its hardware was different, so only the ratios between its
times can be compared with ours.
"""

from __future__ import annotations

from statistics import mean
from typing import NamedTuple

CLEAN, MANY, UNCLEAN = "clean", "clean, many segments", "unclean"
BASELINE = "kafka-2.1"


class ArticleCell(NamedTuple):
    """The times of one cell in seconds, the time of one partition, and how busy the disk was."""

    seconds: tuple[int, ...]
    partition: str = ""
    disk: str = ""


_AT_90 = "mostly about 90 %"
_ABOVE_90 = "above 90 %"
# By strategy, state and threads. MANY is a directory of 1,000 segments.
ARTICLE = {
    (BASELINE, CLEAN, 1): ArticleCell((184, 30), "100-200 ms, 20 ms"),
    (BASELINE, MANY, 1): ArticleCell((156, 114)),
    ("lazy", MANY, 1): ArticleCell((74, 52)),
    (BASELINE, UNCLEAN, 1): ArticleCell((76 * 60, 78 * 60), "about 4 s", _AT_90),
    (BASELINE, UNCLEAN, 2): ArticleCell((96 * 60, 99 * 60), "", _ABOVE_90),
    ("dedupe", UNCLEAN, 1): ArticleCell((50 * 60, 49 * 60), "2-3 s", _ABOVE_90),
    ("dedupe", UNCLEAN, 2): ArticleCell((51 * 60,), "", _ABOVE_90),
    ("dedupe", UNCLEAN, 4): ArticleCell((53 * 60,), "", _ABOVE_90),
}


def article_gain(strategy: str, state: str, readers: int) -> float | None:
    """How many times as fast this was as Kafka 2.1 with one thread; None if the article does not have it."""
    cell = ARTICLE.get((strategy, state, readers))
    return mean(ARTICLE[BASELINE, state, 1].seconds) / mean(cell.seconds) if cell else None


def article_text(strategy: str, state: str, readers: int) -> str:
    """The cell as the article has it: its times, then in brackets one partition's time and the disk's use."""
    cell = ARTICLE.get((strategy, state, readers))
    if cell is None:
        return ""
    times = ", ".join(_duration(seconds) for seconds in cell.seconds)
    notes = [
        *([f"a partition {cell.partition}"] if cell.partition else []),
        *([f"disk {cell.disk}"] if cell.disk else []),
    ]
    return f"{times} ({'; '.join(notes)})" if notes else times


def _duration(seconds: int) -> str:
    units = ((seconds // 3600, "h"), (seconds % 3600 // 60, "min"), (seconds % 60, "s"))
    return " ".join(f"{count} {unit}" for count, unit in units if count)
