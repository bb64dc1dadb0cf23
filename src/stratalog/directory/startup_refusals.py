"""Lists the reasons for which a Kafka 4.3.1 broker would refuse to start.

One function looks at all log directories of a node and lists the reasons, each with what to do about it. It
reads only listings, small files and the ends of logs, changes nothing, and takes no lock. A broker may give
up at three times:

before loading   a log directory on a read-only file system, which it cannot lock;
                 meta.properties of every directory: missing, garbled, of two nodes or clusters; the
                 cluster's metadata (metadata_refusals.py)
while loading    a folder that is not a partition's, a partition twice, a file's name without an offset, a
                 folder in the place of a file, a garbled checkpoint, partition.metadata or leader epochs, an
                 entry of another version in a .txnindex, a file that it may not read or write; files are also
                 checked in folders marked -delete and -stray, which it loads before it removes or keeps them;
                 a full disk (room_refusals.py); logs whose end it cannot read, or takes for another one, so
                 that it deletes records or gives offsets again (log_end_refusals.py)
after loading    a file with the name of a partition that is not there (file_refusals.py); a folder with
                 another topic's id: no partition is served then (topic_id_refusals.py); a directory.id that
                 the cluster does not know: partitions may lack a leader (directory_id_refusals.py)

Some of these end the process. Others take one log directory offline, which ends the process too if the
directory is the last one or has the cluster's metadata. Faults that do not keep a broker from starting are
not listed: a torn tail, a missing index, a missing partition.metadata (the broker renames that folder to
-stray), or a checkpoint with text instead of a number.

Kafka: MetaPropertiesEnsemble, LogManager.loadLogs, LogLoader, PartitionMetadataFile, CheckpointFile
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.cleaner_refusals import of_cleaner
from stratalog.directory.cluster_metadata import METADATA_DIRECTORY
from stratalog.directory.directory_id_refusals import of_directory_ids, restore_remedy, with_old_ids
from stratalog.directory.file_refusals import of_files
from stratalog.directory.formatting.note import has_format_note
from stratalog.directory.kind import are_brokers
from stratalog.directory.layout import Layout, classify, find_duplicates
from stratalog.directory.log_end_refusals import of_log_ends
from stratalog.directory.meta_properties import MetaProperties, directory_id_problem, read_meta_properties
from stratalog.directory.metadata_refusals import metadata_places, of_metadata, of_metadata_places
from stratalog.directory.node import Node, find_node
from stratalog.directory.owner_refusals import of_metadata_owners, of_owners
from stratalog.directory.refusal import RECOVER_ALL, RefusalKind, StartupRefusal, unreadable
from stratalog.directory.room_refusals import NOTHING_FREED, of_room
from stratalog.directory.topic_id_refusals import of_topic_ids
from stratalog.errors import CheckpointNumberError, CorruptCheckpointError, DiskError
from stratalog.files.entries import DirectoryEntry, EntryKind, Path
from stratalog.files.names import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    TEMPORARY_SUFFIX,
    FileKind,
    FileState,
    parse_number,
    parse_segment_file,
)
from stratalog.files.paths import join_path, prefix_of
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.partition_metadata import PartitionMetadataFile
from stratalog.segment.txn_index import refused_version

# A broker parses an offset before the first dot of names with these endings, and fails if there is none.
_WITH_OFFSET = (*(kind.value for kind in FileKind), FileState.SWAP.value, FileState.CLEANED.value)
_LOG = FileKind.LOG.value
_REWRITE = f"{RECOVER_ALL}, which rewrites it"
_MOVE = "Move it out of the log directory."
_MOVE_FOLDER = "Move the folder out of the log directory: no broker serves what is in it."
_MOVE_OLDER = "Compare the two, and move the older one out of the log directories."
_REMOUNT = (
    "Look in the kernel's messages (`dmesg`) for the reason: the kernel makes a file system read-only after "
    "an error. If there was one, check the disk and the file system first. Then mount it read-write, with "
    "`mount -o remount,rw` and its mount point."
)
_FORMAT_AGAIN = "Run `stratalog format` again, as before: it was interrupted, and continues where it stopped."


def startup_refusals(
    disk: DiskReader,
    directories: Sequence[Path],
    *,
    siblings: Sequence[Path] = (),
    metadata_directory: Path | None = None,
    node_id: int | None = None,
    strays: Collection[str] = (),
    node: Node | None = None,
    freed_sizes: Mapping[str, int] = NOTHING_FREED,
) -> tuple[StartupRefusal, ...]:
    """Why a broker would not start with these log directories of one node; empty if it would.

    `siblings` are the other directories of its log.dirs, `metadata_directory` is its metadata.log.dir, and
    `node_id` is the one in its server.properties, if these are known. `strays` are the paths of partitions
    that it sets aside, so that they do not count as duplicates. `node` saves reading the cluster's metadata
    again. `freed_sizes` are bytes that a planned recovery frees (`of_room`). A LogManager's own directories
    need no meta.properties (`kind.py`).
    """
    paths = [os.fspath(directory) for directory in directories]
    others = [os.fspath(path) for path in siblings]
    special = os.fspath(metadata_directory) if metadata_directory else None
    real = {os.path.realpath(path) for path in paths}
    # A broker also reads metadata.log.dir, whether it is in log.dirs or not.
    judged = [*paths, *([special] if special and os.path.realpath(special) not in real else [])]
    found = [*_of_mounts(disk, judged)]
    found += [*_of_nodes(disk, judged, [path for path in others if path not in judged], node_id)]
    found += of_metadata_places(disk, judged, special)
    places = metadata_places(disk, judged, others, special)
    for place in places:
        found += _of_metadata_place(disk, place)
    layouts = []
    for path in paths:
        try:
            layouts.append(classify(disk, path))
        except DiskError as error:
            found.append(unreadable(disk, path, "", error))
    node = node or find_node(disk, [*judged, *others], metadata_directory=special, is_damaged=True)
    for layout in layouts:
        found += _of_layout(disk, layout)
        found += of_topic_ids(disk, layout, node)
    found += of_files(disk, layouts, others, node)
    everything = [*judged, *(path for path in others if path not in judged)]
    found += of_directory_ids(disk, layouts, everything, node, are_all=special is not None)
    count = sum(len(layout.partitions) for layout in layouts)
    found += of_room(disk, judged, metadata_in=places, partitions_count=count, freed_sizes=freed_sizes)
    everywhere = [
        (layout.directory, entry)
        for layout in layouts
        for entry in layout.partitions
        if layout.path(entry) not in strays
    ]
    for problem in find_duplicates(everywhere):
        directory = next(path for path in paths if problem.name.startswith(prefix_of(path)))
        name, words = problem.name.removeprefix(prefix_of(directory)), f"Partition {problem.words}."
        found.append(StartupRefusal(RefusalKind.TWICE, directory, name, words, _MOVE_OLDER))
    # Several checks may fail on the same file.
    return tuple(dict.fromkeys(with_old_ids(disk, found, layouts, everything, node, node_id)))


def _of_mounts(disk: DiskReader, paths: list[str]) -> Iterator[StartupRefusal]:
    """Log directories on read-only file systems: a broker cannot create its lock there."""
    for path in paths:
        with suppress(DiskError):  # a missing or unreadable directory is reported elsewhere
            if disk.is_read_only(path):
                yield StartupRefusal(
                    RefusalKind.READ_ONLY,
                    path,
                    "",
                    "Its file system is read-only, so that a broker cannot lock it.",
                    _REMOUNT,
                    takes_offline=True,
                )


def _of_nodes(
    disk: DiskReader, paths: list[str], others: list[str], node_id: int | None
) -> Iterator[StartupRefusal]:
    """Problems of each meta.properties, and contradictions between them."""
    known: list[tuple[str, MetaProperties]] = []
    missing: list[str] = []
    for path in (*paths, *others):
        refusal = None
        try:
            meta = read_meta_properties(disk, path)
        except CorruptCheckpointError as error:
            refusal = _bad_meta(path, error.reason)
        except DiskError as error:
            refusal = unreadable(disk, path, META_PROPERTIES, error)
        else:
            if meta is None:
                missing.append(path)
            elif reason := _incomplete(meta):
                refusal = _bad_meta(path, reason)
            else:
                known.append((path, meta))
        if refusal is not None and path in paths:
            yield refusal
    if missing and are_brokers(disk, [*paths, *others]):
        for path in (path for path in missing if path in paths):
            remedy = _FORMAT_AGAIN if has_format_note(disk, path) else restore_remedy()
            yield StartupRefusal(
                RefusalKind.META_PROPERTIES, path, META_PROPERTIES, "The file is missing.", remedy
            )
    yield from _disagreements(known, paths, node_id)


def _incomplete(meta: MetaProperties) -> str | None:
    if meta.node_id is None:
        return "It has no node.id." if meta.is_kraft else "It has no broker.id, which version 0 needs."
    if not meta.is_kraft:
        return None  # of a cluster with ZooKeeper
    if meta.cluster_id is None:
        return "It has no cluster.id."
    return None if meta.directory_id is None else directory_id_problem(meta.directory_id)


def _bad_meta(path: str, reason: str) -> StartupRefusal:
    return StartupRefusal(RefusalKind.META_PROPERTIES, path, META_PROPERTIES, reason, restore_remedy())


def _disagreements(
    known: list[tuple[str, MetaProperties]], paths: list[str], node_id: int | None
) -> Iterator[StartupRefusal]:
    """Problems between directories: two nodes, two clusters, one directory id twice."""
    if not known:
        return
    (first_path, first), *_ = known
    apart = "Name only the directories of one node; or correct log.dirs, so that it names only those."
    for path, meta in known:
        if path not in paths:
            continue
        if node_id is not None and meta.node_id not in (node_id, None):
            words = f"It belongs to node {meta.node_id}, and server.properties says node.id={node_id}."
            yield StartupRefusal(RefusalKind.OTHER_NODE, path, META_PROPERTIES, words, apart)
        elif (meta.node_id, meta.cluster_id) != (first.node_id, first.cluster_id):
            words = (
                f"It belongs to node {meta.node_id} of cluster {meta.cluster_id}, {first_path} to node "
                f"{first.node_id} of cluster {first.cluster_id}."
            )
            yield StartupRefusal(RefusalKind.OTHER_NODE, path, META_PROPERTIES, words, apart)
        same = [other for other, found in known if found.directory_id == meta.directory_id]
        if meta.directory_id is not None and same[0] != path:
            yield StartupRefusal(
                RefusalKind.OTHER_NODE,
                path,
                META_PROPERTIES,
                f"{same[0]} has the same directory.id {meta.directory_id}: this directory may be its copy.",
                "To use both, delete the line directory.id in one of the two: a broker gives it a new id.",
            )


def _of_layout(disk: DiskReader, layout: Layout) -> Iterator[StartupRefusal]:
    directory = layout.directory
    for problem in layout.problems:
        if problem.name.startswith(prefix_of(directory)):
            continue  # a partition that is there twice: all directories are compared at once
        if problem.name == CLEAN_SHUTDOWN:
            yield from _of_marker(disk, directory)
            continue
        yield StartupRefusal(
            RefusalKind.FOLDER, directory, problem.name, "This is not the folder of a partition.", _MOVE
        )
    yield from _of_checkpoints(disk, directory)
    yield from of_cleaner(disk, directory)
    yield from of_owners(disk, layout)
    for entry in layout.partitions:
        yield from _of_partition(disk, directory, entry.name)
    yield from of_log_ends(disk, layout)
    for name in (*layout.waiting, *layout.strays):
        for refusal in _of_partition(disk, directory, name):
            yield refusal.with_remedy(_MOVE_FOLDER)


def _of_metadata_place(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    yield from of_metadata(disk, directory)
    yield from of_metadata_owners(disk, directory)
    try:
        status = disk.status(join_path(directory, METADATA_DIRECTORY))
    except DiskError:  # its meta.properties cannot be read either
        return
    if status is None or status.kind is not EntryKind.DIRECTORY:
        return  # the folder is missing before the first start; or it is a file, which is reported elsewhere
    for refusal in _of_partition(disk, directory, METADATA_DIRECTORY):
        is_movable = refusal.kind is RefusalKind.FILE_NAME
        yield refusal if is_movable else refusal.with_remedy("Restore it from a backup.")


def _of_marker(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    """A folder in the place of the clean-shutdown file: a broker deletes it if it is empty."""
    if disk.list_directory(join_path(directory, CLEAN_SHUTDOWN)):
        words = "This is a folder with files in it, and not the clean-shutdown file."
        yield StartupRefusal(RefusalKind.FOLDER, directory, CLEAN_SHUTDOWN, words, _MOVE, takes_offline=True)


def _of_checkpoints(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    checkpoints = DirectoryCheckpoints(disk, directory)
    for checkpoint in checkpoints.every:
        try:
            checkpoint.read()
        except DiskError as error:
            yield unreadable(disk, directory, checkpoint.name, error)
            continue
        problem = checkpoint.problem
        if problem is not None and checkpoint.takes_offline:
            yield StartupRefusal(
                RefusalKind.CHECKPOINT,
                directory,
                checkpoint.name,
                f"It cannot be read: {problem.words}.",
                f"{_REWRITE}; or delete it: a broker treats a missing file as an empty one.",
                takes_offline=True,
            )


def _of_partition(disk: DiskReader, directory: str, name: str) -> Iterator[StartupRefusal]:
    """Reasons for which a broker cannot load one partition, apart from its log."""
    path = join_path(directory, name)
    try:
        entries = disk.list_directory(path)
    except DiskError as error:
        yield unreadable(disk, directory, name, error)
        return
    for entry in entries:
        if entry.kind is EntryKind.FILE and not _has_offset(entry.name):
            yield StartupRefusal(
                RefusalKind.FILE_NAME,
                directory,
                join_path(name, entry.name),
                "The name ends like that of a segment's file, but does not begin with an offset.",
                _MOVE,
            )
    yield from _of_folders(directory, name, entries)
    yield from _of_aborted(disk, directory, name, [entry.name for entry in entries])
    listed = {entry.name for entry in entries}
    if PARTITION_METADATA in listed:
        yield from _of_partition_metadata(disk, directory, name)
    if LEADER_EPOCH_CHECKPOINT in listed:
        yield from _of_leader_epochs(disk, directory, name)


def _of_folders(directory: str, name: str, entries: Sequence[DirectoryEntry]) -> Iterator[StartupRefusal]:
    """Folders in the place of files that a broker writes when it loads a log."""
    logs = [entry.name for entry in entries if entry.kind is EntryKind.FILE and entry.name.endswith(_LOG)]
    active = max(logs, default="").removesuffix(_LOG)
    for entry in entries:
        stem, dot, ending = entry.name.partition(".")
        is_written = {
            FileKind.LOG.value: not logs,
            FileKind.OFFSET_INDEX.value: stem == active,
            FileKind.TIME_INDEX.value: stem == active,
            FileKind.TXN_INDEX.value: f"{stem}{_LOG}" in logs,
            FileKind.PRODUCER_SNAPSHOT.value: stem > active,  # the snapshot at the log's end
        }.get(dot + ending, entry.name == LEADER_EPOCH_CHECKPOINT + TEMPORARY_SUFFIX)
        if entry.kind is EntryKind.DIRECTORY and is_written:
            yield StartupRefusal(
                RefusalKind.FOLDER,
                directory,
                join_path(name, entry.name),
                "This is a folder where a broker writes a file.",
                _MOVE,
                takes_offline=True,
            )


def _of_aborted(
    disk: DiskReader, directory: str, partition: str, names: Sequence[str]
) -> Iterator[StartupRefusal]:
    """Indexes of aborted transactions with an entry of another version."""
    indexes = [name for name in names if name.endswith(FileKind.TXN_INDEX.value) and _has_offset(name)]
    for file in filter(None, map(parse_segment_file, indexes)):
        name = join_path(partition, file.name)
        try:
            version = refused_version(disk.read_file(join_path(directory, name)) or b"", file.offset)
        except DiskError as error:
            # A folder, or a file that the broker's user may not read either, is reported elsewhere.
            if (refusal := unreadable(disk, directory, name, error)).is_unseen:
                yield refusal
            continue
        if version is not None:
            yield StartupRefusal(
                RefusalKind.TXN_INDEX,
                directory,
                name,
                f"An entry has version {version}, and only version 0 is known.",
                "Run `stratalog index`, which rebuilds it from the log.",
            )


def _has_offset(name: str) -> bool:
    if not name.endswith(_WITH_OFFSET):
        return True
    return parse_number(name[: name.index(".")], INT64_MIN, INT64_MAX) is not None


def _of_partition_metadata(disk: DiskReader, directory: str, partition: str) -> Iterator[StartupRefusal]:
    name = join_path(partition, PARTITION_METADATA)
    try:
        PartitionMetadataFile(disk, join_path(directory, name)).read()
    except CorruptCheckpointError as error:
        yield StartupRefusal(
            RefusalKind.PARTITION_METADATA,
            directory,
            name,
            f"It does not name the topic's id: {error.reason}",
            f"{_REWRITE} where the cluster's metadata knows the topic. Or write the topic's id into it by "
            "hand; without the file a broker renames the folder to -stray and does not serve it.",
        )
    except DiskError as error:
        yield unreadable(disk, directory, name, error)


def _of_leader_epochs(disk: DiskReader, directory: str, partition: str) -> Iterator[StartupRefusal]:
    name = join_path(partition, LEADER_EPOCH_CHECKPOINT)
    try:
        LeaderEpochFileCache(disk, join_path(directory, name))
    except CorruptCheckpointError as error:
        yield StartupRefusal(
            RefusalKind.LEADER_EPOCHS,
            directory,
            name,
            f"It cannot be read: {error.reason}",
            f"{_REWRITE} from the log.",
            takes_offline=not isinstance(error, CheckpointNumberError),
        )
    except DiskError as error:
        yield unreadable(disk, directory, name, error)
