"""A reason why a broker does not start, or does not use a log directory; what several reasons mean together.

Kafka: LogDirFailureChannel, ReplicaManager.handleLogDirFailure
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from stratalog.directory.owners import current_user, is_refused_only_here, owner_of
from stratalog.errors import DiskError
from stratalog.files.names import META_PROPERTIES
from stratalog.files.paths import join_path, prefix_of
from stratalog.files.reading import DiskReader

RECOVER_ALL = "Run `stratalog recover --all`"
DANGLING = "This is a symbolic link that does not lead to a folder."
MOUNT = "Mount the disk to which the link leads, or put the link right."


class RefusalKind(Enum):
    """The kind of a reason; the value is a word for JSON."""

    META_PROPERTIES = "meta_properties"
    OTHER_NODE = "other_node"
    FOLDER = "folder"
    FILE = "file"
    TWICE = "twice"
    CHECKPOINT = "checkpoint"
    CLEANER = "cleaner"
    LEADER_EPOCHS = "leader_epochs"
    PARTITION_METADATA = "partition_metadata"
    TOPIC_ID = "topic_id"
    DIRECTORY_ID = "directory_id"
    FILE_NAME = "file_name"
    QUORUM_STATE = "quorum_state"
    BOOTSTRAP = "bootstrap"
    METADATA_PLACE = "metadata_place"
    METADATA_SNAPSHOT = "metadata_snapshot"
    LOG_END = "log_end"
    WRONG_END = "wrong_end"
    START_PAST_END = "start_past_end"
    TXN_INDEX = "txn_index"
    OWNER = "owner"
    READ_ONLY = "read_only"
    FULL = "full"
    UNREADABLE = "unreadable"
    NOT_SEEN = "not_seen"


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
    def is_unseen(self) -> bool:
        """Whether the file was not checked, because this user may not read it. The broker may be able to."""
        return self.kind is RefusalKind.NOT_SEEN

    @property
    def leaves_unserved(self) -> bool:
        """Whether a broker starts and uses the directory, but does not serve or compact what is in it."""
        return self.kind in (RefusalKind.TOPIC_ID, RefusalKind.DIRECTORY_ID, RefusalKind.CLEANER)

    @property
    def loses_records(self) -> bool:
        """Whether a broker starts, and then deletes a log or writes to it at a wrong offset."""
        return self.kind in (RefusalKind.WRONG_END, RefusalKind.START_PAST_END)

    def with_remedy(self, remedy: str) -> StartupRefusal:
        """The same reason with another remedy; unchanged if `is_unseen`."""
        return self if self.is_unseen else self._replace(remedy=remedy)

    @property
    def consequence(self) -> str:
        if self.is_unseen:
            return "So it was not checked, and a broker may or may not be able to use it."
        if self.takes_offline:
            return "A broker takes this log directory offline because of it."
        if self.kind is RefusalKind.TOPIC_ID:
            return "A broker starts, but serves no partition of any topic because of it."
        if self.kind is RefusalKind.DIRECTORY_ID:
            return "A broker starts, but these may have no leader until it is stopped and started again."
        if self.kind is RefusalKind.CLEANER:
            return "A broker starts, but its cleaner ends because of it, so that no log is compacted."
        if self.kind is RefusalKind.WRONG_END:
            return "A broker starts, and continues the log at a wrong offset because of it."
        if self.kind is RefusalKind.START_PAST_END:
            return "A broker starts, and deletes the whole log because of it."
        if self.kind is RefusalKind.FULL:
            return "A broker that cannot write there ends while it starts, or soon after."
        return "A broker refuses to start because of it."

    @property
    def cause(self) -> str:
        """What the broker does, and because of what: a clause for a verdict."""
        if self.kind is RefusalKind.FULL:
            return f"it has no room on the disk of {self.directory}"
        if self.takes_offline:
            return f"it takes {self.directory} offline because of {self.path}"
        if self.kind is RefusalKind.TOPIC_ID:
            return f"it serves no partition because of {self.path}"
        if self.kind is RefusalKind.DIRECTORY_ID:
            return f"it may not serve all partitions because of {self.path}"
        if self.kind is RefusalKind.CLEANER:
            return f"it compacts no log because of {self.path}"
        if self.kind is RefusalKind.WRONG_END:
            return f"it continues a log at a wrong offset because of {self.path}"
        if self.kind is RefusalKind.START_PAST_END:
            return f"it deletes a whole log because of {self.path}"
        return f"it refuses to start because of {self.path}"


def is_start_refused(
    refusals: Iterable[StartupRefusal], directories: Iterable[str], metadata_directory: str | None
) -> bool:
    """Whether a broker with these log directories exits instead of serving.

    It continues without a directory that it has taken offline, unless that directory has the cluster's
    metadata or is the last one. If it cannot read meta.properties, it does not look at the rest of that
    directory. Reasons that are `is_unseen`, `leaves_unserved` or `loses_records` are ignored.
    """
    found = [each for each in refusals if not (each.is_unseen or each.leaves_unserved or each.loses_records)]
    offline = {each.directory for each in found if each.takes_offline}
    unseen = {each.directory for each in found if each.takes_offline and each.name == META_PROPERTIES}
    if any(not each.takes_offline and each.directory not in unseen for each in found):
        return True
    return metadata_directory in offline or (bool(offline) and offline.issuperset(directories))


def unreadable(disk: DiskReader, directory: str, name: str, error: DiskError) -> StartupRefusal:
    """The reason for a file or folder that cannot be read."""
    if is_refused_only_here(disk, directory, error):
        return _not_seen(disk, directory, error)
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


def _not_seen(disk: DiskReader, directory: str, error: DiskError) -> StartupRefusal:
    is_inside = error.path.startswith(prefix_of(directory))
    owner = owner_of(disk, directory)
    whose = (
        "the user who owns the log directory"
        if owner is None
        else f"user {owner}, who owns the log directory"
    )
    return StartupRefusal(
        RefusalKind.NOT_SEEN,
        directory,
        error.path.removeprefix(prefix_of(directory)) if is_inside else "",
        f"User {current_user()}, who runs this command, may not read it.",
        f"Run this command as root, or as {whose}.",
    )
