"""Each partition of log directories with its offsets, size and times, and the lag of groups."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from stratalog.clock import system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.errors import CorruptIndexError, CorruptRecordError
from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.reading.arguments import option_texts
from stratalog.jobs.reading.catalog import all_partitions
from stratalog.jobs.reading.ends import ends_of, problem_at
from stratalog.jobs.reading.omissions import OnOmission
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import looking_at
from stratalog.jobs.tables import TIMESTAMP, Row, moment
from stratalog.log.api.view import LogView
from stratalog.log.timestamps import SpecialTimestamp
from stratalog.scanning.asking import OnDamage
from stratalog.scanning.scan import Scan
from stratalog.scanning.words import python_words
from stratalog.segment.search import TimestampAndOffset
from stratalog.tables.internal import commit_source
from stratalog.tables.sources import ComputedSource, LogPaths

PARTITION_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("startOffset", pa.int64()),
        ("endOffset", pa.int64()),
        ("stableOffset", pa.int64()),
        ("size", pa.int64()),
        ("segments", pa.int32()),
        ("firstTimestamp", TIMESTAMP),
        ("largestTimestamp", TIMESTAMP),
        ("directory", pa.string()),
        ("problem", pa.string()),
    ]
)
LAG_SCHEMA = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committedOffset", pa.int64()),
        ("startOffset", pa.int64()),
        ("endOffset", pa.int64()),
        ("lag", pa.int64()),
        ("committedAt", TIMESTAMP),
    ]
)


def partitions(paths: LogPaths) -> Scan:
    """Each partition, internal ones too: first and next offset, last stable offset, bytes, times.

    If damage hides one of these values, it is null, and `problem` describes the damage. Bytes
    at the end that are not a batch count as damage if the checkpoints say that complete batches were there.
    """
    with python_words():
        options = ReadOptions.parse(option_texts(paths))
        all_partitions(reader_for(*options.paths), options)  # reports a wrong path now
    source = ComputedSource(schema=PARTITION_SCHEMA, compute=lambda _: _partitions(options))
    return Scan(source, PARTITION_SCHEMA.names)


def lag(paths: LogPaths, *, on_corruption: OnDamage = "fail") -> Scan:
    """For each group and each partition for which it has committed: how many offsets it has yet to consume.

    Offsets and lag are null for a partition that is not in these directories.
    """
    with python_words():
        options = ReadOptions.parse(option_texts(paths))
        committed = commit_source(paths, on_corruption)

    def compute(on_omission: OnOmission) -> pa.Table:
        found = _partitions(options).select(["topic", "partition", "startOffset", "endOffset"])
        places = {(row["topic"], row["partition"]): row for row in found.to_pylist()}
        commits = committed.compute(on_omission)
        # A time stays an integer: one that Python's datetime cannot hold must not fail the read.
        at = commits.schema.get_field_index("committedAt")
        rows = commits.set_column(at, "committedAt", commits["committedAt"].cast(pa.int64())).to_pylist()
        behind = [_behind(row, places.get((row["topic"], row["partition"]), {})) for row in rows]
        return pa.Table.from_pylist(behind, schema=LAG_SCHEMA)

    return Scan(ComputedSource(schema=LAG_SCHEMA, compute=compute), LAG_SCHEMA.names)


def _behind(commit: Row, place: Row) -> Row:
    end = place.get("endOffset")
    return {
        "group": commit["group"],
        "topic": commit["topic"],
        "partition": commit["partition"],
        "committedOffset": commit["offset"],
        "startOffset": place.get("startOffset"),
        "endOffset": end,
        "lag": None if end is None or commit["offset"] is None else max(0, end - commit["offset"]),
        "committedAt": commit["committedAt"],
    }


def _partitions(options: ReadOptions) -> pa.Table:
    disk = reader_for(*options.paths)
    rows = [_row(disk, found) for found in all_partitions(disk, options)]
    return pa.Table.from_pylist(rows, schema=PARTITION_SCHEMA)


def _row(disk: DiskReader, found: FoundPartition) -> Row:
    row: Row = {**found.topic_partition._asdict(), "directory": found.directory}
    try:
        return looking_at(disk, system_clock, found, lambda view: row | _facts(view))
    finally:
        disk.release(found.directory)


def _facts(view: LogView) -> Row:
    facts: Row = {"startOffset": view.log_start_offset, "size": view.size, "segments": len(view.segments)}
    problems: dict[str, None] = {}
    questions: dict[str, Callable[[], int | None]] = {
        "endOffset": lambda: end_of(view, read_committed=False, problems=problems),
        "stableOffset": lambda: end_of(view, read_committed=True, problems=problems),
        "firstTimestamp": lambda: _time(view.first_not_before(0)),
        "largestTimestamp": lambda: _time(view.fetch_offset_by_timestamp(SpecialTimestamp.MAX_TIMESTAMP)),
    }
    for name, ask in questions.items():
        try:
            facts[name] = ask()
        except (CorruptRecordError, CorruptIndexError) as error:
            # The cause, because the error around it adds advice for reads, such as onCorruption=skip.
            problems[str(error.__cause__ or error)] = None
    return facts | {"problem": " ".join(problems) or None}


def end_of(view: LogView, *, read_committed: bool, problems: dict[str, None]) -> int | None:
    """The end; None if damage hides it, so that nobody computes a lag from it."""
    ends = ends_of(view, read_committed=read_committed)
    problem = problem_at(view, ends.valid)
    if problem is not None:
        problems[problem] = None
    is_hidden = problem is not None and ends.end_offset == ends.valid.offset
    return None if is_hidden else ends.end_offset


def _time(found: TimestampAndOffset | None) -> int | None:
    return moment(None if found is None else found.timestamp)
