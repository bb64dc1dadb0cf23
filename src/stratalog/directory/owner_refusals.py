"""Lists files that the broker's user may not read or write, for example because root made them.

In a log directory, such a file takes the directory offline. If it belongs to the cluster's metadata, the
broker refuses to start: a file of any name in __cluster_metadata-0, or the bootstrap.checkpoint beside it.

Kafka: LogLoader, FileQuorumStateStore, KafkaMetadataLog, BootstrapDirectory
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stratalog.directory.cluster_metadata import BOOTSTRAP_CHECKPOINT, METADATA_DIRECTORY
from stratalog.directory.layout import Layout
from stratalog.directory.owners import Unusable, metadata_out_of_reach, out_of_reach
from stratalog.directory.refusal import RefusalKind, StartupRefusal, unreadable
from stratalog.errors import DiskError
from stratalog.files.paths import prefix_of
from stratalog.files.reading import DiskReader

_OF_METADATA = (BOOTSTRAP_CHECKPOINT, METADATA_DIRECTORY)


def of_owners(disk: DiskReader, layout: Layout) -> Iterator[StartupRefusal]:
    """Files of a log directory and of its partitions."""
    yield from _refusals(disk, layout.directory, lambda: out_of_reach(disk, layout))


def of_metadata_owners(disk: DiskReader, directory: str) -> Iterator[StartupRefusal]:
    """Files of the cluster's metadata, in the directory in which the broker looks for it."""
    yield from _refusals(disk, directory, lambda: metadata_out_of_reach(disk, directory))


def _refusals(
    disk: DiskReader, directory: str, find: Callable[[], Iterator[Unusable]]
) -> Iterator[StartupRefusal]:
    try:
        found = [*find()]
    except DiskError as error:
        is_inside = error.path.startswith(prefix_of(directory))
        name = error.path.removeprefix(prefix_of(directory)) if is_inside else ""
        yield unreadable(disk, directory, name, error)
        return
    for path, status, user in found:
        name = "" if path == directory else path.removeprefix(prefix_of(directory))
        yield StartupRefusal(
            RefusalKind.OWNER,
            directory,
            name,
            f"It belongs to user {status.user} with mode {status.mode:o}: user {user}, who owns the log "
            "directory, may not use it.",
            f"Give it to the broker's user, as in `chown {user} {path}` or `chmod u+rw {path}`.",
            takes_offline=name.partition("/")[0] not in _OF_METADATA,
        )
