"""Who asks for an append, which decides how much of it is checked."""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """Kafka's four origins of an append. Kafka: AppendOrigin"""

    CLIENT = "client"  # a producer: everything is checked
    COORDINATOR = "coordinator"  # a transaction or group coordinator: its batches have no sequences
    REPLICATION = "replication"  # a leader, who checked already: offsets and epochs are taken as given
    RAFT_LEADER = "raft leader"  # the metadata quorum: brings its own offsets

    def __init__(self, name: str) -> None:
        # Whether the log gives offsets to what it appends; else the batches bring theirs.
        self.assigns_offsets = name in ("client", "coordinator")
