"""Which epoch the clean-shutdown files may carry after a recovery.

With a clean-shutdown file a broker does not scan its logs, whatever epoch is in the file. The epoch is a
promise to the controller of a KRaft cluster (KIP-966): every acknowledged record is still here. After a power
cut nobody can promise that, because the page cache is lost. If only the process died (kill -9, out of
memory), the system still writes what the process gave it. Then the epoch is that of the killed run, unless
`promise_of_the_killed_run` finds a reason against it.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.directory.clean_shutdown import NO_PROMISE, CleanShutdown
from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.recovery.directory_recovery import DirectoryRecovery

_CONSEQUENCE = (
    "The clean-shutdown files have no epoch, so the controller treats the last shutdown as unclean. The "
    "broker still starts without a scan."
)


def promise_of_the_killed_run(
    directories: Sequence[DirectoryRecovery], metadata: ClusterMetadata | None, node_id: int | None
) -> tuple[CleanShutdown, str]:
    """The epoch of the node's last registration; or no epoch, and a sentence that says why."""
    if any(directory.error is not None for directory in directories):
        why = "not every directory could be recovered"
    elif any(directory.state.note.has_cut or directory.gone_logs for directory in directories):
        why = "more was cut off than the unfinished last batch of a log, or other records may be missing"
    elif metadata is None:
        why = "the cluster's metadata, which knows the epoch, is not in these directories"
    elif metadata.problem is not None:
        why = "the cluster's metadata cannot be read to its end"
    elif node_id is None:
        why = "the meta.properties of these directories do not name one node"
    elif node_id not in metadata.broker_epochs:
        why = f"the cluster's metadata has no registration of node {node_id}"
    elif missing := missing_directories(directories, metadata, node_id):
        why = f"{len(missing)} log directories of node {node_id} are not named: {', '.join(missing)}"
    elif other := _without(directories, metadata.broker_epochs[node_id]):
        why = (
            f"{other.path} was recovered or closed before: its clean-shutdown file has another epoch or none"
        )
    else:
        return CleanShutdown(broker_epoch=metadata.broker_epochs[node_id]), ""
    return NO_PROMISE, f"--process-crash: {why}. {_CONSEQUENCE}"


def _without(directories: Sequence[DirectoryRecovery], epoch: int) -> DirectoryRecovery | None:
    """A directory that already had a clean-shutdown file, with another epoch or none."""
    notes = [(directory, directory.state.note) for directory in directories]
    return next((found for found, note in notes if note.was_clean and note.said.broker_epoch != epoch), None)


def missing_directories(
    directories: Sequence[DirectoryRecovery], metadata: ClusterMetadata | None, node_id: int | None
) -> list[str]:
    """The ids of directories that the node registered but that are not among these."""
    if metadata is None or node_id is None:
        return []
    here = {found.meta.directory_id for found in directories if found.meta is not None}
    return sorted(metadata.broker_directories.get(node_id, frozenset()) - here)


def may_stand_beside_an_epoch(
    directory: DirectoryRecovery, directories: Sequence[DirectoryRecovery], *, has_missing: bool
) -> bool:
    """Whether another clean-shutdown file of the same broker may have an epoch. Then this file has no epoch
    field, instead of -1.

    `clean_shutdown.py` says why. For the same reason, a file that had no epoch field gets none again.
    """
    note = directory.state.note
    said_nothing = note.was_clean and note.said.broker_epoch is None
    others = [
        other.state.note.said if other.is_left_alone else other.own_promise()
        for other in directories
        if other is not directory and other.error is None
    ]
    return has_missing or said_nothing or any(other.has_epoch for other in others)
