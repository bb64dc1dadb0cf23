"""Which epoch the markers may carry after a recovery.

Any marker spares a broker its scan. The epoch in it is a promise to the controller of a KRaft cluster
(KIP-966): every record that was acknowledged is here. After a power cut nobody can promise that, as the page
cache was lost. If only the process died, by kill -9 or for want of memory, the system has written what it was
given; then the epoch is that of the run that died, but for the cases below.
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.log.clean_shutdown import UNKNOWN_EPOCH
from stratalog.manager.directory import DirectoryRecovery
from stratalog.manager.topics import ClusterMetadata

_CONSEQUENCE = (
    "The markers have no epoch, so that the controller takes the stop for an unclean one; the broker starts "
    "without a scan all the same."
)


def epoch_of_the_killed_run(
    directories: Sequence[DirectoryRecovery], metadata: ClusterMetadata | None, node_id: int | None
) -> tuple[int, str]:
    """The epoch of the node's last registration; or -1, and a sentence that says why it is not promised."""
    if any(directory.error is not None for directory in directories):
        why = "not every directory could be recovered"
    elif any(directory.attempt.note.has_cut for directory in directories):
        why = "more than the unfinished last batch of a log was cut off"
    elif metadata is None:
        why = "the cluster's metadata, which knows the epoch, is not in these directories"
    elif metadata.problem is not None:
        why = "the cluster's metadata cannot be read to its end"
    elif node_id is None:
        why = "the meta.properties of these directories do not name one node"
    elif node_id not in metadata.broker_epochs:
        why = f"the cluster's metadata has no registration of node {node_id}"
    else:
        return metadata.broker_epochs[node_id], ""
    return UNKNOWN_EPOCH, f"--process-crash: {why}. {_CONSEQUENCE}"
