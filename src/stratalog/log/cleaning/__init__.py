"""Compaction: what stays of a log when of each key only the last record does."""

from stratalog.log.cleaning.clean import CleanerStats, CleanResult, DirtyLog, clean_log, last_records_of
from stratalog.log.cleaning.filter import LastRecord
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.replace import replace_segments

__all__ = [
    "CleanResult",
    "CleanerStats",
    "DirtyLog",
    "LastRecord",
    "OffsetMap",
    "clean_log",
    "last_records_of",
    "replace_segments",
]
