"""Finds cleaner checkpoints with a word for a number, because of which a broker compacts no log.

A broker treats the other checkpoints with such an entry as empty files. The cleaner does not: its thread ends
with an error at its first look at the file, right after the start. The broker then serves all partitions, but
the logs of compacted topics, such as __consumer_offsets, grow until it is started without the entry.

Kafka: LogCleanerManager.allCleanerCheckpoints, OffsetCheckpointFile
"""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.refusal import RECOVER_ALL, RefusalKind, StartupRefusal
from stratalog.errors import DiskError
from stratalog.files.reading import DiskReader


def of_cleaner(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    """The cleaner's checkpoint of this directory, if its thread ends because of it."""
    checkpoint = DirectoryCheckpoints(disk, directory).cleaner_offsets
    try:
        checkpoint.read()
    except DiskError:  # startup_refusals.py reports it
        return
    if checkpoint.problem is not None and not checkpoint.takes_offline:
        yield StartupRefusal(
            RefusalKind.CLEANER,
            directory,
            checkpoint.name,
            f"It cannot be read: {checkpoint.problem.words}.",
            f"{RECOVER_ALL}, which rewrites it; or delete it: a broker takes a missing file "
            "for an empty one.",
        )
