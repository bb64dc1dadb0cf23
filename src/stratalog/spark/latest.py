"""`stratalog.spark.latest`: the newest record of each key, on Spark.

Only keys and offsets are aggregated; the records are then chosen by their offsets, so that no value takes
part in a shuffle by key. Keys and deletions are recognised by their bytes, because a key or value that
cannot be decoded becomes null, but is not missing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.jobs.decoding.asked import DECODING_OPTIONS, Encoding
from stratalog.jobs.reading.arguments import Time, option_texts
from stratalog.jobs.reading.options import LATEST, ReadOptions
from stratalog.spark.engine import context_of
from stratalog.spark.frames import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stratalog.jobs.reading.omissions import Omission, OnOmission

_DECODING = {name.lower() for name in DECODING_OPTIONS}
PLACE = ["topic", "partition", "offset"]


def latest(
    spark: SparkSession,
    path: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    columns: Sequence[str] | None = None,
    tombstones: bool = False,
    on_omission: OnOmission | None = None,
    **options: object,
) -> DataFrame:
    """The newest record of each key of a partition, as after a compaction; the arguments are those of `read`.

    A key whose newest record has no value counts as deleted, and is left out; `tombstones` includes that
    record. Records without a key are left out. Keys are compared as bytes, whatever they are decoded to.
    """
    from stratalog.spark.listening import Warner

    given = option_texts(path, topics=topics, since=since, until=until, **options)
    parsed = ReadOptions.parse(given)
    if parsed.table is not None or parsed.include_control:
        raise UsageError("latest reads records with keys: leave out decode and includeControl.")
    wanted = list(parsed.columns if columns is None else columns)
    needed = [*dict.fromkeys([*wanted, *PLACE, *([] if tombstones else ["value"])])]
    # Both reads must end at the same offsets. With Spark Connect these are not set, because the client may
    # not see the files.
    ends = {} if context_of(spark) is None else _ends(parsed)
    tell = _Once(on_omission or Warner())
    asked = {"topics": topics, "since": since, "until": until, "on_omission": tell, **options, **ends}
    undecoded = {name: given for name, given in asked.items() if name.lower() not in _DECODING}
    is_decoded = parsed.value.encoding is not Encoding.BINARY
    place = ["offset", *(["value IS NOT NULL AS is_set"] if is_decoded else [])]
    keyed = [*PLACE, "key", *(["value"] if is_decoded else [])]
    keys = read(spark, path, columns=keyed, **undecoded).where("key IS NOT NULL")  # type: ignore[arg-type]
    newest = keys.selectExpr("topic", "partition", "key", f"struct({', '.join(place)}) AS place")
    newest = newest.groupBy("topic", "partition", "key").agg({"place": "max"})
    places = newest.selectExpr("topic", "partition", "`max(place)`.*")
    rows = read(spark, path, columns=needed, **asked)  # type: ignore[arg-type]
    if tombstones:
        return rows.join(places, PLACE, "left_semi").select(*wanted)
    if is_decoded:
        return rows.join(places.where("is_set"), PLACE, "left_semi").select(*wanted)
    return rows.join(places, PLACE, "left_semi").where("value IS NOT NULL").select(*wanted)


class _Once:
    """Passes each omission on once, although both reads report it."""

    def __init__(self, on_omission: OnOmission) -> None:
        self._on_omission = on_omission
        self._known: set[Omission] = set()
        self._lock = threading.Lock()

    def __call__(self, omission: Omission) -> None:
        with self._lock:
            if omission not in self._known:
                self._known.add(omission)
                self._on_omission(omission)


def _ends(options: ReadOptions) -> dict[str, str]:
    """The current end of each partition as an option, unless the read has an end already."""
    ending = options.ending
    if ending.timestamp is not None or ending.timestamps or ending.offsets or ending.mark != LATEST:
        return {}
    from stratalog.clock import system_clock
    from stratalog.files.storage import reader_for
    from stratalog.jobs.reading.catalog import find_partitions
    from stratalog.jobs.reading.ends import ends_of
    from stratalog.jobs.reading.plan import looking_at

    disk = reader_for(*options.paths)
    ends: dict[str, dict[str, int]] = {}
    for found in find_partitions(disk, options):
        end = looking_at(
            disk, system_clock, found, lambda view: ends_of(view, read_committed=options.read_committed)
        )
        topic, partition = found.topic_partition
        ends.setdefault(topic, {})[str(partition)] = end.end_offset
    return {"endingOffsets": json.dumps(ends)} if ends else {}
