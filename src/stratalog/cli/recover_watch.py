"""Shows how far a recovery is: a bar for each device, or a line now and then where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stratalog.cli.output import Output
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    from stratalog.directory.recovery.progress import DeviceProgress, OnProgress, RecoveryProgress

_BETWEEN_LINES_S = 30.0


@contextmanager
def watching(output: Output) -> Iterator[OnProgress]:
    """What a recovery is to call."""
    said_s = time.monotonic()
    with output.bars() as show:

        def on_progress(progress: RecoveryProgress) -> None:
            nonlocal said_s
            for device in progress.devices:
                words = f"{device.device.name}, {_counted(device.readers, 'reader')}"
                left = _counted(progress.logs_remaining, "log")
                show(device.device.name, f"{words}, {left} left", device.bytes_done, device.bytes_total)
            now_s = time.monotonic()
            if progress.devices and not output.is_watched and now_s - said_s >= _BETWEEN_LINES_S:
                said_s = now_s
                output.say(progress_line(progress))

        yield on_progress


def progress_line(progress: RecoveryProgress) -> str:
    """How far it is, in one line."""
    logs = _counted(progress.logs_remaining, "log")
    segments = _counted(progress.segments_remaining, "segment")
    parts = [_device_words(device) for device in progress.devices]
    seconds = progress.seconds_left
    ready = "" if seconds is None else f"; ready in about {_duration(seconds)}"
    return f"{'; '.join(parts)}; {logs} and {segments} left{ready}"


def _device_words(device: DeviceProgress) -> str:
    readers = _counted(device.readers, "reader")
    done, total = size_text(device.bytes_done), size_text(device.bytes_total)
    return f"{device.device.name}: {done} of {total} at {size_text(int(device.rate))}/s with {readers}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
