"""A reason why a broker does not start, or does not use a log directory; what several reasons mean together.

Kafka: LogDirFailureChannel, ReplicaManager.handleLogDirFailure
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from stratalog.errors import DiskError
from stratalog.files.names import META_PROPERTIES
from stratalog.files.paths import join_path

RECOVER_ALL = "Run `stratalog recover --all`"


class RefusalKind(Enum):
    """The kind of a reason; the value is a word for JSON."""

    META_PROPERTIES = "meta_properties"
    OTHER_NODE = "other_node"
    FOLDER = "folder"
    TWICE = "twice"
    CHECKPOINT = "checkpoint"
    LEADER_EPOCHS = "leader_epochs"
    PARTITION_METADATA = "partition_metadata"
    FILE_NAME = "file_name"
    QUORUM_STATE = "quorum_state"
    BOOTSTRAP = "bootstrap"
    METADATA_PLACE = "metadata_place"
    METADATA_SNAPSHOT = "metadata_snapshot"
    LOG_END = "log_end"
    TXN_INDEX = "txn_index"
    OWNER = "owner"
    READ_ONLY = "read_only"
    UNREADABLE = "unreadable"


class StartupRefusal(NamedTuple):
    """One reason: in which log directory, the name of the file or folder in it, what is wrong, what to do.

    `takes_offline`: a broker with other log directories starts without this one, unless this one has the
    cluster's metadata.
    """

    kind: RefusalKind
    directory: str
    name: str
    reason: str
    remedy: str
    takes_offline: bool = False

    @property
    def path(self) -> str:
        return join_path(self.directory, self.name) if self.name else self.directory

    @property
    def is_repaired_by_all(self) -> bool:
        """Whether `stratalog recover --all` repairs it in a log directory that was shut down cleanly."""
        return self.remedy.startswith(RECOVER_ALL)

    @property
    def consequence(self) -> str:
        if self.takes_offline:
            return "A broker takes this log directory offline because of it."
        return "A broker refuses to start because of it."


def is_start_refused(
    refusals: Iterable[StartupRefusal], directories: Iterable[str], metadata_directory: str | None
) -> bool:
    """Whether a broker with these log directories exits instead of serving.

    It continues without a directory that it has taken offline, unless that directory has the cluster's
    metadata or is the last one. If it cannot read meta.properties, it does not look at the rest of that
    directory.
    """
    found = list(refusals)
    offline = {each.directory for each in found if each.takes_offline}
    unseen = {each.directory for each in found if each.takes_offline and each.name == META_PROPERTIES}
    if any(not each.takes_offline and each.directory not in unseen for each in found):
        return True
    return metadata_directory in offline or (bool(offline) and offline.issuperset(directories))


def unreadable(directory: str, name: str, error: DiskError) -> StartupRefusal:
    """The reason for a file or folder that cannot be read."""
    reason = error.reason if error.reason.endswith(".") else f"{error.reason}."
    return StartupRefusal(
        RefusalKind.UNREADABLE,
        directory,
        name,
        f"It cannot be read: {reason}",
        "Check its owner and its permissions, whether something else has its name, and whether its disk is "
        "sound.",
        takes_offline=True,
    )
