"""Searches log files for records to erase, with a task for each file: on a cluster, for example.

The search of each partition gets the results (`Matcher.known`), and reads only the files that no task has
read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from stratalog.engine.engine import Engine
from stratalog.engine.progress import OnProgress
from stratalog.errors import StratalogError
from stratalog.files.paths import parent_path
from stratalog.files.reading import DiskReader
from stratalog.files.stamps import FileStamp
from stratalog.log.cleaning.erase import FileOfBatches, find_records
from stratalog.log.cleaning.erase_selection import Found, Matcher, Selection

_reused = threading.local()  # a matcher takes time to build if there are many keys


class SearchTask(NamedTuple):
    """A file to search, as the driver sees it, and what to search for."""

    stamp: FileStamp
    selection: Selection


def search_file(disk: DiskReader, task: SearchTask) -> Found:
    """The records to erase from one file; OtherFileError if this machine sees another file."""
    if getattr(_reused, "selection", None) is not task.selection:
        _reused.matcher, _reused.selection = Matcher(task.selection), task.selection
    task.stamp.check(disk)
    found = find_records(FileOfBatches(disk, task.stamp.path, task.stamp.size), _reused.matcher)
    task.stamp.check(disk)
    return found


def search_files(
    engine: Engine, disk: DiskReader, paths: Sequence[str], selection: Selection, on_progress: OnProgress
) -> Mapping[str, Found | StratalogError]:
    """What was found in each file, or why it could not be searched."""
    tasks = [SearchTask(FileStamp.of(disk, path), selection) for path in paths]
    outcomes = engine.run(
        search_file,
        tasks,
        sizes=[max(0, task.stamp.size) for task in tasks],
        paths=[parent_path(path) for path in paths],
        on_progress=on_progress,
    )
    with closing(outcomes):
        return {outcome.task.stamp.path: outcome.value for outcome in outcomes}
