"""`stratalog-format.json`: the ids that a format gives, kept in each directory until the format is complete.

{"version": 0, "cluster_id": "sEiga6BNSJaW_7X41bWJDQ", "node_id": 1, "incarnation_id": "VOStEzFNSYyJ...",
 "metadata_directory": "/a", "directories": {"/a": "reGNe0_MHPkN7msm8w9sjg", "/b": "..."},
 "topics": {"orders": "s38DPPefRHu4CKwEjdBcXA"}}

The file is written before anything else, and deleted last. So a directory that has this file was being
formatted when the run was interrupted, and the next run gives the same ids. A broker does not start before
the last file of a format is written: the meta.properties of the directory with the metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stratalog.errors import CorruptCheckpointError, FormatRefusedError
from stratalog.files.disk import Disk
from stratalog.files.names import META_PROPERTIES
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import topic_id_from_text

FORMAT_NOTE = "stratalog-format.json"
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ids of a node that is being formatted.

    `topics` has new ids for topics that have none in any partition.metadata.
    """

    cluster_id: str
    node_id: int
    incarnation_id: str
    metadata_directory: str
    directories: Mapping[str, str]
    topics: Mapping[str, str]


def read_identity(disk: DiskReader, paths: Iterable[str]) -> Identity | None:
    """What an interrupted run has noted in these directories; None if none of them has a note."""
    found = {path: note for path in paths if (note := _read(disk, path)) is not None}
    if not found:
        return None
    (first, note), *others = found.items()
    topics = dict(note.topics)
    for path, other in others:
        if replace(other, topics=note.topics) != note:
            raise FormatRefusedError(
                path,
                f"An earlier format was interrupted here, and another one in {first}: {FORMAT_NOTE} says "
                "which directories each of them had. Finish them one after the other.",
            )
        # A later run may add topics to the notes. If it is interrupted while it writes them, only some have
        # the new ones.
        topics |= other.topics
    return replace(note, topics=topics)


def delete_note(disk: Disk, directory: str) -> None:
    """Delete the note of a directory: its format is complete."""
    if disk.delete(join_path(directory, FORMAT_NOTE)):
        disk.sync_directory(directory)


def write_identity(disk: Disk, directory: str, identity: Identity) -> None:
    """Note the ids in a directory; on the device when this returns."""
    document = {
        "version": _VERSION,
        "cluster_id": identity.cluster_id,
        "node_id": identity.node_id,
        "incarnation_id": identity.incarnation_id,
        "metadata_directory": identity.metadata_directory,
        "directories": dict(identity.directories),
        "topics": dict(identity.topics),
    }
    data = json.dumps(document).encode()
    path = join_path(directory, FORMAT_NOTE)
    if disk.read_file(path) != data:
        disk.replace(path, data)


def has_format_note(disk: DiskReader, directory: str) -> bool:
    """Whether a format of this directory was begun, and not completed."""
    return disk.exists(join_path(directory, FORMAT_NOTE))


def is_complete(disk: DiskReader, identity: Identity) -> bool:
    """Whether everything is done except the removal of the notes."""
    return disk.exists(join_path(identity.metadata_directory, META_PROPERTIES))


def _read(disk: DiskReader, directory: str) -> Identity | None:
    path = join_path(directory, FORMAT_NOTE)
    data = disk.read_file(path)
    if data is None:
        return None
    try:
        return _parse(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptCheckpointError(
            path,
            0,
            f"it is not the note of an interrupted format ({type(error).__name__}: {error}). Delete it to "
            "begin again.",
        ) from error


def _parse(document: Any) -> Identity:  # Any: JSON, whose parts are checked here
    if document["version"] != _VERSION:
        raise ValueError(f"its version is {document['version']}")
    identity = Identity(
        cluster_id=str(document["cluster_id"]),
        node_id=int(document["node_id"]),
        incarnation_id=str(document["incarnation_id"]),
        metadata_directory=str(document["metadata_directory"]),
        directories={str(path): str(text) for path, text in document["directories"].items()},
        topics={str(name): str(text) for name, text in document["topics"].items()},
    )
    for text in (
        identity.cluster_id,
        identity.incarnation_id,
        *identity.directories.values(),
        *identity.topics.values(),
    ):
        topic_id_from_text(text)
    return identity
