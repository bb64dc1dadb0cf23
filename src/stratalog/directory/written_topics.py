"""`stratalog-topics.json`: the numbers of partitions of topics that were written without metadata.

{"version": 0, "partitions": {"orders": 6}}

The directories alone do not show these numbers: a partition that got no record has no directory. The
partition of a record depends on its key and on the number of partitions. So `stratalog format`
(`formatting/`), which turns the directory into that of a broker, must know this number. The Spark sink writes
it to this file; `format` puts it into the metadata, and deletes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from stratalog.errors import CorruptCheckpointError
from stratalog.files.disk import Disk
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader

WRITTEN_TOPICS = "stratalog-topics.json"
_VERSION = 0


def read_written_topics(disk: DiskReader, directory: str) -> dict[str, int]:
    """The numbers of partitions that were noted in this log directory, by topic."""
    path = join_path(directory, WRITTEN_TOPICS)
    data = disk.read_file(path)
    if data is None:
        return {}
    try:
        found = json.loads(data)
        if found["version"] != _VERSION:
            raise ValueError(f"its version is {found['version']}")
        return {str(topic): int(count) for topic, count in found["partitions"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise CorruptCheckpointError(
            path,
            0,
            f"it does not say how many partitions topics have ({type(error).__name__}: {error}). Delete it, "
            "and give the numbers yourself.",
        ) from error


def delete_written_topics(disk: Disk, directory: str) -> None:
    """Delete the file: the cluster's metadata has the numbers."""
    if disk.delete(join_path(directory, WRITTEN_TOPICS)):
        disk.sync_directory(directory)


def note_written_topics(disk: Disk, directory: str, counts: Mapping[str, int]) -> None:
    """Note these numbers too, on the device when this returns. The number of a topic is never lowered."""
    known = read_written_topics(disk, directory)
    merged = {**known, **{topic: max(count, known.get(topic, 0)) for topic, count in counts.items()}}
    if merged != known:
        document = {"version": _VERSION, "partitions": dict(sorted(merged.items()))}
        disk.replace(join_path(directory, WRITTEN_TOPICS), json.dumps(document).encode())
