"""The ids of a cluster that is being made: those of an interrupted run, or new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from stratalog.directory.cluster_metadata import BOOTSTRAP_CHECKPOINT, METADATA_DIRECTORY
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.note import Identity
from stratalog.directory.meta_properties import directory_id_problem, read_meta_properties
from stratalog.errors import FormatRefusedError, UsageError
from stratalog.files.names import META_PROPERTIES
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import topic_id_to_text

MakeId = Callable[[], UUID]


def new_id(make_id: MakeId = uuid4) -> str:
    """A random id as Kafka makes it: without a special meaning, and not beginning with `-` like an option."""
    while (text := topic_id_to_text(make_id())).startswith("-") or directory_id_problem(text) is not None:
        pass
    return text


def with_topics(identity: Identity, names: Iterable[str], make_id: MakeId) -> Identity:
    """A copy of the identity, with ids for these topics too."""
    new = {name: new_id(make_id) for name in sorted(names) if name not in identity.topics}
    return replace(identity, topics={**identity.topics, **new})


def decide_identity(
    options: FormatOptions,
    paths: Sequence[str],
    metadata_directory: str,
    earlier: Identity | None,
    make_id: MakeId,
) -> Identity:
    """The ids for these directories: those of an interrupted run, or new ones.

    UsageError if the options contradict the interrupted run, FormatRefusedError if the directories do.
    """
    cluster_id, node_id = options.checked_cluster_id(), options.decided_node_id()
    if earlier is None:
        return Identity(
            cluster_id=cluster_id or new_id(make_id),
            node_id=node_id,
            incarnation_id=new_id(make_id),
            metadata_directory=metadata_directory,
            directories={path: new_id(make_id) for path in paths},
            topics={},
        )
    begun = f"An earlier format of {', '.join(earlier.directories)} was interrupted"
    if set(paths) != set(earlier.directories) or metadata_directory != earlier.metadata_directory:
        raise FormatRefusedError(
            metadata_directory,
            f"{begun}: name the same directories, {earlier.metadata_directory} first, to finish it.",
        )
    if cluster_id not in (None, earlier.cluster_id):
        raise UsageError(f"{begun}, which gave the cluster the id {earlier.cluster_id}: leave the id out.")
    if node_id != earlier.node_id:
        raise UsageError(f"{begun}, which was for node {earlier.node_id}, not {node_id}.")
    return earlier


def check_unformatted(disk: DiskReader, paths: Iterable[str], identity: Identity | None) -> None:
    """FormatRefusedError if a directory is a broker's. Files of an interrupted format do not make it one."""
    for path in paths:
        meta = read_meta_properties(disk, path)
        if identity is not None:
            own = (identity.node_id, identity.cluster_id, identity.directories.get(path))
            if meta is None or (meta.node_id, meta.cluster_id, meta.directory_id) == own:
                continue
        if meta is not None:
            raise FormatRefusedError(
                path,
                f"It is formatted already, as a directory of node {meta.node_id} of the cluster "
                f"{meta.cluster_id}. To add partitions to that cluster: create the topic on the broker, stop "
                "the broker, write, start it again.",
            )
        signs = (METADATA_DIRECTORY, BOOTSTRAP_CHECKPOINT)
        sign = next((name for name in signs if disk.exists(join_path(path, name))), None)
        if sign is not None:
            raise FormatRefusedError(
                path, f"It is formatted already: it has {sign}, but no {META_PROPERTIES}. Restore that."
            )
