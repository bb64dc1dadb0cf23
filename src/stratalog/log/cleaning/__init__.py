"""Compaction of one log, and erasing of records.

choice            which log is cleaned next, up to where, and why another is not
clean             `clean_log`: the two passes
distributed       compacts a log in parts, which a cluster may do
erase             rewrites files without certain records: count, write, check, swap
erase_audit       stratalog-erased.jsonl: a line for each file that lost records
erase_filter      what is left of a run without the erased records
erase_partition   the files of one partition that hold such records
erase_proof       reads back what an erasure wrote
erase_quarantine  erases from what recovery put into quarantine
erase_selection   which records are erased: by key, by offset
filter            what compaction keeps of a run of batches; the delete horizon
groups            which neighbouring segments become one
in_log            compacts an open log: flushes it first, then swaps its segments
newest            whether there is a newer record with the same key
newest_first      reads the dirty part backwards, and puts aside what stays
offset_map        for each key the last offset at which it was written
output            appends the records that stay to the new segment
parts             the batches of a file in parts, each in memory of its own
replace           swaps new segments for old ones, safe against a crash
results           what a cleaning returns: new segments and counts
runs              a segment's records in runs, for both passes
sampling          an estimate with an error bound, from some of the batches
split             splits a segment whose offsets are too far apart
spool             a temporary file for what was put aside
tally             which keys or prefixes take the most space
transactions      whose records were aborted, and which markers are still needed

Not here: the cleaner's threads, throttling and checkpoints (`manager/`), and commands (`operations/`).
"""

from typing import TYPE_CHECKING

from stratalog.lazy_names import lazy_names

if TYPE_CHECKING:
    from stratalog.log.cleaning.clean import DirtyLog, clean_log, last_records_of
    from stratalog.log.cleaning.filter import LastRecord
    from stratalog.log.cleaning.offset_map import OffsetMap
    from stratalog.log.cleaning.replace import replace_segments
    from stratalog.log.cleaning.results import CleanerStats, CleanResult

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

__getattr__ = lazy_names(
    __name__,
    {
        "CleanResult": "stratalog.log.cleaning.results",
        "CleanerStats": "stratalog.log.cleaning.results",
        "DirtyLog": "stratalog.log.cleaning.clean",
        "LastRecord": "stratalog.log.cleaning.filter",
        "OffsetMap": "stratalog.log.cleaning.offset_map",
        "clean_log": "stratalog.log.cleaning.clean",
        "last_records_of": "stratalog.log.cleaning.clean",
        "replace_segments": "stratalog.log.cleaning.replace",
    },
)
