"""The storages that logs can be read from: what a user's path means, and which reader it gets.

So far the only one is this machine's file system. Another storage, such as an object store, needs its own
`DiskReader` (`reading.py`) with ids that are text, and this module must accept its addresses. Other code
joins paths and takes them apart with `paths.py`, and never looks into an id. Writing and changing stay local,
and their paths go through `local_path`.
"""

from __future__ import annotations

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.files.paths import absolute_path, path_text
from stratalog.files.reading import DiskReader


def readable_path(path: Path) -> str:
    """The path in the form that its reader takes; UsageError for a storage that cannot be read from."""
    return local_path(path)


def reader_for(*paths: Path) -> DiskReader:
    """The reader for these paths, which are all in one storage; UsageError as for `readable_path`."""
    for path in paths:
        readable_path(path)
    return DiskReader()


def local_path(path: Path) -> str:
    """The absolute path of something in this machine's file system; UsageError for anything else.

    The scheme file:, which Spark's paths may have, is removed.
    """
    text = path_text(path)
    scheme, separator, rest = text.partition(":")
    if separator and scheme == "file":
        return absolute_path("/" + rest.lstrip("/"))
    if separator and rest.startswith("//"):
        raise UsageError(f"{text}: only directories in this machine's file system can be used.")
    return absolute_path(text)
