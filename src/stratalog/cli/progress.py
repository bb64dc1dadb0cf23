"""The progress of an operation in words: the text beside a bar, or a line if there is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from stratalog.operations.words import counted, size_text, span_text

if TYPE_CHECKING:
    from stratalog.engine.progress import DeviceUse, Progress


class ProgressBar(NamedTuple):
    """One bar: its key, its text, how much is done, and of how much."""

    key: str
    words: str
    done: int
    total: int


def bars_of(progress: Progress, words: str = "") -> Iterator[ProgressBar]:
    """A bar for each device of a recovery, and one for each stage of anything else.

    `words` name the work if the event does not.
    """
    if progress.devices and progress.remaining:
        for use in progress.devices:
            left = f"{counted(use.readers, 'reader')}, {counted(progress.logs_remaining, 'log')} left"
            yield ProgressBar(use.device.name, f"{use.device.name}, {left}", use.bytes_read, use.bytes_total)
    elif progress.bytes_total:
        found = " ".join(filter(None, (progress.stage or words, progress.part)))
        yield ProgressBar(progress.stage, found, progress.bytes_done, progress.bytes_total)


def progress_line(progress: Progress, words: str = "") -> str:
    """The progress in one line."""
    if progress.devices and progress.remaining:
        logs = counted(progress.logs_remaining, "log")
        segments = counted(progress.segments_remaining, "segment")
        parts = [*map(_device_words, progress.devices), f"{logs} and {segments} left"]
    else:
        parts = [
            f"{bar.words}: {size_text(bar.done)} of {size_text(bar.total)}"
            for bar in bars_of(progress, words)
        ]
    seconds = progress.seconds_left
    ready = [] if seconds is None else [f"ready in about {span_text(max(round(seconds), 1) * 1000)}"]
    return "; ".join([*parts, *ready])


def _device_words(use: DeviceUse) -> str:
    done, total = size_text(use.bytes_read), size_text(use.bytes_total)
    rate, readers = size_text(int(use.rate)), counted(use.readers, "reader")
    return f"{use.device.name}: {done} of {total} at {rate}/s with {readers}"
