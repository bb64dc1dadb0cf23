"""Appends several batches so that an error leaves none of them.

All batches are checked and get their offsets before the first one is written. Meanwhile the high watermark
does not follow the end, so that no reader sees only some of them. If a write fails, the batches that were
written are cut off again. If that fails too, so does the log. The first batches may then be in the log when
it is opened again, as after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from stratalog.errors import StratalogError
from stratalog.log.append import analyze
from stratalog.log.appender import Appender
from stratalog.log.cutter import Cutter
from stratalog.log.origin import AppendOrigin
from stratalog.log.parts import LogParts

logger = logging.getLogger(__name__)


def append_all(
    parts: LogParts, appender: Appender, cutter: Cutter, sets: Sequence[Any], leader_epoch: int
) -> tuple[int, int]:
    """Append these batches of a client one after the other; returns the first and the last offset."""
    limit = appender.config.max_message_bytes
    infos = [
        analyze(data, origin=AppendOrigin.CLIENT, max_message_bytes=limit, leader_epoch=leader_epoch)
        for data in sets
    ]
    guard, marks = parts.guard, parts.marks
    with guard.flushing() as inside, inside.changing():  # both locks, because truncating needs both
        start = marks.end.offset
        infos = appender.prepare_all(infos, leader_epoch)
        with marks.holding_high_watermark():
            try:
                for info in infos:
                    appender.write_prepared(info)
            except BaseException:
                logger.warning("%s: a write failed, offsets from %d on are cut off", parts.folder.path, start)
                with suppress(StratalogError):
                    if not cutter.truncate_to(start):
                        # The first batch may be in the file, although its index entries are not.
                        parts.segments.active.truncate_to(start)
                raise
        marks.follow_end()
    return start, marks.end.offset - 1
