"""Finds log directories that the cluster knows by another directory.id than the one they have now.

The cluster's metadata assigns each partition to a log directory, by the directory.id of its meta.properties.
If none of the node's directories has this id, the controller takes the partition's directory for offline, and
lets no broker lead it from there. The broker then tells the controller in which directory the partition is.
If that comes before the controller unfences the broker, as on a busy machine, the partition gets a leader;
if not, only when the broker is started again. So it is

if an id was changed or removed, as by `kafka-storage.sh format`, which makes a new one
if a folder was moved to another log directory, and its old one is no longer in log.dirs

Only partitions without a leader and with one replica count. After a clean stop they have no leader; a broker
that was killed is still their leader, and stays it. Partitions that the metadata assigns to no directory (up
to Kafka 3.6, or in a directory with a reserved id) do not count either.

Kafka: DirectoryId.isOnline, ReplicationControlManager.LeaderAcceptor, AssignmentsManager
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import Layout
from stratalog.directory.meta_properties import MetaProperties, directory_id_problem, read_meta_properties
from stratalog.directory.node import Node
from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.names import META_PROPERTIES, DirectoryState
from stratalog.files.reading import DiskReader

RESTORE = (
    "Restore it from a backup; or delete what is left of it and run `kafka-storage.sh format "
    "--ignore-formatted` with the id of this cluster, which leaves the data alone. The command makes a new "
    "directory.id"
)
_UNKNOWN_ID = (
    f"{RESTORE}: put the old one back if you know it. With another id, partitions without another replica "
    "may have no leader until the broker is started a second time."
)
_START_TWICE = (
    "start the broker, stop it when it has loaded its logs, and start it again: the first start tells the "
    "controller where the partitions are now, and the second one gives them a leader."
)


def restore_remedy(directory_id: str | None = None) -> str:
    """What to do about a missing or garbled meta.properties. `directory_id` is the one it had, if known."""
    if directory_id is None:
        return _UNKNOWN_ID
    return (
        f"{RESTORE}: replace that by directory.id={directory_id}, which the cluster's metadata has for this "
        "directory. With another id, partitions without another replica may have no leader until the broker "
        "is started a second time."
    )


def with_old_ids(
    disk: DiskReader,
    refusals: Iterable[StartupRefusal],
    layouts: Sequence[Layout],
    places: Sequence[str],
    node: Node,
    node_id: int | None,
) -> Iterator[StartupRefusal]:
    """The same reasons; for a lost meta.properties, the remedy names the directory.id, if that is known.

    `places` are all directories of the node; `node_id` is that of its server.properties, or None.
    """
    for refusal in refusals:
        layout = next((layout for layout in layouts if layout.directory == refusal.directory), None)
        if refusal.kind is RefusalKind.META_PROPERTIES and refusal.remedy == _UNKNOWN_ID and layout:
            old_id = _old_id(disk, layout, places, node, node_id)
            yield refusal._replace(remedy=restore_remedy(old_id))
        else:
            yield refusal


def of_directory_ids(
    disk: DiskReader, layouts: Sequence[Layout], places: Sequence[str], node: Node, *, are_all: bool
) -> Iterator[StartupRefusal]:
    """The log directories with partitions that the metadata assigns to a directory that the node lacks.

    `are_all`: the node has no other directories than `places`. If that is not known, only a directory counts
    whose own id is not known to the cluster.
    """
    metadata, node_id = node.metadata, node.node_id
    metas = {place: _meta_of(disk, place) for place in places}
    ids = {meta.directory_id for meta in metas.values() if meta is not None}
    if metadata is None or metadata.problem is not None or node_id is None or None in metas.values():
        return  # other reasons, or too little is known
    registered = metadata.broker_directories.get(node_id, frozenset())
    for layout in layouts:
        meta = metas[layout.directory]
        own_id = None if meta is None else meta.directory_id
        is_known = own_id in registered
        lost = _assigned(layout, metadata, node_id, waiting_only=True)
        lost = Counter({other: count for other, count in lost.items() if other not in ids})
        if not lost or (is_known and not are_all):
            continue
        old_id, _ = lost.most_common(1)[0]
        count = lost.total()
        yield StartupRefusal(
            RefusalKind.DIRECTORY_ID,
            layout.directory,
            META_PROPERTIES,
            f"It has {'no directory.id' if own_id is None else f'directory.id={own_id}'}, but the cluster's "
            f"metadata assigns {count} of the partitions here to {old_id}, an id that no directory of this "
            "node has.",
            _moved_remedy(old_id) if is_known else _changed_remedy(old_id),
        )


def _changed_remedy(old_id: str) -> str:
    return (
        f"Write the line directory.id={old_id} into it, in place of any other directory.id. Or, if the "
        f"partitions were moved here from a directory that is gone, {_START_TWICE}"
    )


def _moved_remedy(old_id: str) -> str:
    return (
        f"If the directory with directory.id={old_id} is still there, name it in log.dirs, too. If not, "
        f"{_START_TWICE}"
    )


def _old_id(
    disk: DiskReader, layout: Layout, places: Sequence[str], node: Node, node_id: int | None
) -> str | None:
    """The directory.id that the cluster knows of a directory whose meta.properties is lost."""
    metadata = node.metadata
    if metadata is None:
        return None
    if node_id is None:
        node_id = node.node_id
    if node_id is None and len(metadata.broker_directories) == 1:
        (node_id,) = metadata.broker_directories
    if node_id is None:
        return None
    metas = [_meta_of(disk, place) for place in places]
    others = {meta.directory_id for meta in metas if meta is not None}
    assigned = _assigned(layout, metadata, node_id)
    for found, _ in assigned.most_common():
        if found not in others:
            return found
    left = metadata.broker_directories.get(node_id, frozenset()) - others
    return next(iter(left)) if len(left) == 1 and metas.count(None) == 1 else None


def _assigned(
    layout: Layout, metadata: ClusterMetadata, node_id: int, *, waiting_only: bool = False
) -> Counter[str]:
    """The number of partitions here that the metadata assigns to each id of a directory."""
    keys = [entry.topic_partition for entry in layout.partitions if entry.state is DirectoryState.LIVE]
    found = [
        metadata.directory_of(key, node_id)
        for key in keys
        if not waiting_only or metadata.waits_for(key, node_id)
    ]
    return Counter(each for each in found if each is not None)


def _meta_of(disk: DiskReader, place: str) -> MetaProperties | None:
    """Its meta.properties; None if it has none that a broker can use, which startup_refusals.py reports."""
    try:
        meta = read_meta_properties(disk, place)
    except (CorruptCheckpointError, DiskError):
        return None
    is_usable = meta is None or meta.directory_id is None or directory_id_problem(meta.directory_id) is None
    return meta if is_usable else None
