"""Decides when a new segment is begun, from values that were already read. Kafka: LogSegment.shouldRoll"""

from __future__ import annotations

import random
from enum import Enum

from stratalog.config import LogConfig
from stratalog.limits import INT32_MAX


class RollReason(Enum):
    """Why a new segment is begun; the value is the text for messages."""

    SIZE = "the segment is full"
    AGE = "the segment is old enough"
    INDEX_FULL = "an index is full"
    OFFSET_OVERFLOW = "the offset is too far from the segment's base"


def roll_reason(
    *,
    base_offset: int,
    segment_size: int,
    index_full: bool,
    waited_ms: int,
    set_size: int,
    last_offset: int,
    segment_bytes: int,
    segment_ms: int,
) -> RollReason | None:
    """Why the segment must be rolled before this set is appended; None to append to it.

    The arguments were already read from the segment, the set and the configuration. They are separate,
    because making a value for them would slow down every append.
    """
    if segment_size > segment_bytes - set_size:
        return RollReason.SIZE
    if segment_size > 0 and waited_ms > segment_ms:
        return RollReason.AGE
    if index_full:
        return RollReason.INDEX_FULL
    if not 0 <= last_offset - base_offset <= INT32_MAX:
        return RollReason.OFFSET_OVERFLOW
    return None


def random_jitter_ms(config: LogConfig) -> int:
    """How much earlier a new segment is rolled, so that the logs of a broker do not all roll at once."""
    if config.segment_jitter_ms == 0:
        return 0
    return random.randrange(2**31) % min(config.segment_jitter_ms, config.segment_ms)
