"""Lists the reasons for which a broker cannot start with its cluster's metadata.

__cluster_metadata-0  it is a file, a link that leads nowhere, or not where a broker looks: in
                      metadata.log.dir, or the first of log.dirs
partition.metadata    its id is not the one that the metadata topic has in every cluster
quorum-state          it is not JSON, or lacks a field of its version
quorum-state.tmp      it is a folder with files in it: a broker deletes it before it writes it
newest *.checkpoint   it is damaged or incomplete: unlike a log, a snapshot cannot be cut at the damage
bootstrap.checkpoint  it is damaged, or does not name a metadata.version; checked even before the first start

A broker always recovers the metadata log, so damage in that log does not keep it from starting.

Kafka: KafkaRaftServer.initializeLogDirs, FileQuorumStateStore, KafkaMetadataLog, BootstrapDirectory
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from uuid import UUID

from stratalog.directory.cluster_metadata import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_DIRECTORY,
    begins_at_zero,
    bootstrap_problem,
    newest_snapshot,
    snapshot_problem,
)
from stratalog.directory.refusal import DANGLING, MOUNT, RefusalKind, StartupRefusal, unreadable
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.entries import EntryKind, is_dangling
from stratalog.files.names import PARTITION_METADATA, TEMPORARY_SUFFIX
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import PartitionMetadataFile

_QUORUM_STATE = "quorum-state"
_METADATA_ID = UUID(int=1)  # Kafka: Uuid.METADATA_TOPIC_ID
_RESTORE_QUORUM_STATE = "Restore it from a backup; if this is the cluster's only controller, delete it."
# The fields of each version, and the type of each. Kafka: QuorumStateData.json
_QUORUM_FIELDS: Sequence[dict[str, type]] = (
    {
        "clusterId": str,
        "leaderId": int,
        "leaderEpoch": int,
        "votedId": int,
        "appliedOffset": int,
        "currentVoters": list,
    },
    {"leaderId": int, "leaderEpoch": int, "votedId": int, "votedDirectoryId": str},
)


def of_metadata_places(
    disk: DiskReader, directories: Sequence[str], metadata_directory: str | None
) -> Iterator[StartupRefusal]:
    """Metadata that is a file, or is in a directory in which the broker does not look for it.

    If `metadata_directory` is not known, the first directory with metadata is assumed to be the right one.
    """
    found = []
    for directory in directories:
        try:
            status = disk.status(join_path(directory, METADATA_DIRECTORY))
        except DiskError:  # its meta.properties cannot be read either
            continue
        if status is not None:
            found.append(directory)
            if status.kind is not EntryKind.DIRECTORY:
                yield StartupRefusal(
                    RefusalKind.METADATA_PLACE,
                    directory,
                    METADATA_DIRECTORY,
                    "This is not a folder: the cluster's metadata belongs in a folder of this name.",
                    "Move it away, and restore the folder from a backup.",
                )
    right = metadata_directory or (found[0] if found else None)
    for directory in found:
        if right is not None and os.path.realpath(directory) != os.path.realpath(right):
            yield StartupRefusal(
                RefusalKind.METADATA_PLACE,
                directory,
                METADATA_DIRECTORY,
                f"The broker keeps the cluster's metadata in {right}, and accepts none in another directory.",
                "If this is the right one, name its directory first in log.dirs, or as metadata.log.dir. If "
                "not, move the folder out of the log directory.",
            )


def metadata_places(
    disk: DiskReader, directories: Sequence[str], siblings: Sequence[str], metadata_directory: str | None
) -> list[str]:
    """The directories, of those given, in which a broker reads files of the cluster's metadata.

    They are the ones that have __cluster_metadata-0. Before the first start no directory has it, and a broker
    looks in `metadata_directory`, or else in the first of its log.dirs.
    """
    found = [path for path in dict.fromkeys([*directories, *siblings]) if _has_metadata(disk, path)]
    right = metadata_directory or next(iter([*found, *siblings, *directories]), None)
    return [path for path in directories if path in found or path == right]


def _has_metadata(disk: DiskReader, directory: str) -> bool:
    try:
        return disk.exists(join_path(directory, METADATA_DIRECTORY))
    except DiskError:  # its meta.properties cannot be read either
        return False


def of_metadata(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    """Damage to the files of the cluster's metadata in this directory, apart from the metadata log."""
    yield from _of_link(disk, directory)
    yield from _of_quorum_state(disk, directory)
    yield from _of_temporary_state(disk, directory)
    yield from _of_bootstrap(disk, directory)
    yield from _of_snapshot(disk, directory)
    yield from _of_topic_id(disk, directory)


def _of_link(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    """A link that leads nowhere, in the place of the folder: a broker cannot create the folder there."""
    try:
        entries = disk.list_directory(directory)
    except DiskError:  # startup_refusals.py reports it
        return
    if any(entry.name == METADATA_DIRECTORY and is_dangling(entry) for entry in entries):
        yield StartupRefusal(RefusalKind.METADATA_PLACE, directory, METADATA_DIRECTORY, DANGLING, MOUNT)


def _of_quorum_state(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    name = join_path(METADATA_DIRECTORY, _QUORUM_STATE)
    try:
        data = disk.read_file(join_path(directory, name))
    except DiskError as error:
        yield unreadable(disk, directory, name, error)
        return
    problem = None if data is None else _quorum_problem(data)
    if problem is not None:
        yield StartupRefusal(RefusalKind.QUORUM_STATE, directory, name, problem, _RESTORE_QUORUM_STATE)


def _of_temporary_state(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    """A folder in the place of the file that becomes quorum-state; a broker deletes it if it is empty."""
    name = join_path(METADATA_DIRECTORY, f"{_QUORUM_STATE}{TEMPORARY_SUFFIX}")
    try:
        status = disk.status(join_path(directory, name))
        is_folder = status is not None and status.kind is EntryKind.DIRECTORY
        if is_folder and disk.list_directory(join_path(directory, name)):
            yield StartupRefusal(
                RefusalKind.FOLDER,
                directory,
                name,
                "This is a folder with files in it, where a broker writes a file.",
                "Move it out of the log directory.",
            )
    except DiskError as error:
        yield unreadable(disk, directory, name, error)


def _quorum_problem(data: bytes) -> str | None:
    """Why a broker cannot read it. A broker reads only the JSON at the start of the first line."""
    first_line = data.replace(b"\r", b"\n").partition(b"\n")[0]
    try:
        document, _ = json.JSONDecoder().raw_decode(first_line.decode().lstrip())
    except ValueError:
        return "It is not JSON."
    if not isinstance(document, dict):
        return "It is not a JSON object."
    version = document.get("data_version")
    if not isinstance(version, int) or not 0 <= version < len(_QUORUM_FIELDS):
        return f"Its data_version is not one of 0 to {len(_QUORUM_FIELDS) - 1}."
    for name, kind in _QUORUM_FIELDS[version].items():
        value = document.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"It has no usable {name}, which version {version} has."
    return None


def _of_bootstrap(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    try:
        problem = bootstrap_problem(disk, directory)
    except DiskError as error:
        yield unreadable(disk, directory, BOOTSTRAP_CHECKPOINT, error)
        return
    if problem is not None:
        yield StartupRefusal(
            RefusalKind.BOOTSTRAP,
            directory,
            BOOTSTRAP_CHECKPOINT,
            problem,
            "Restore it from a backup; or delete it: a cluster needs it only for its first start.",
        )


def _of_snapshot(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    place = join_path(directory, METADATA_DIRECTORY)
    try:
        newest, is_needed = newest_snapshot(disk, place), not begins_at_zero(disk, place)
    except DiskError:  # startup_refusals.py looks at this folder, as at those of all partitions
        return
    if newest is None:
        return
    try:
        problem = snapshot_problem(disk, join_path(place, newest.name))
    except DiskError as error:
        problem = error.reason if error.reason.endswith(".") else f"{error.reason}."
    if problem is None:
        return
    remedy = "Move it out of the log directory: the log beside it begins at offset 0 and has everything."
    if is_needed:
        remedy = "Copy it from another controller of the cluster, or restore it from a backup."
    yield StartupRefusal(
        RefusalKind.METADATA_SNAPSHOT,
        directory,
        join_path(METADATA_DIRECTORY, newest.name),
        f"The snapshot of the cluster's metadata cannot be read: {problem}",
        remedy,
    )


def _of_topic_id(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    name = join_path(METADATA_DIRECTORY, PARTITION_METADATA)
    try:
        found = PartitionMetadataFile(disk, join_path(directory, name)).read()
    except (CorruptCheckpointError, DiskError):  # startup_refusals.py looks at this file of all partitions
        return
    if found not in (None, _METADATA_ID):
        yield StartupRefusal(
            RefusalKind.PARTITION_METADATA,
            directory,
            name,
            "It has the id of another topic, not that of the cluster's metadata.",
            "Delete it: a broker writes it again. Check that the folder was not mixed up with another one.",
        )
