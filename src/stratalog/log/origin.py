"""Who requests an append; this decides how much of it is checked."""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """Kafka's four origins of an append. Kafka: AppendOrigin"""

    CLIENT = "client"  # a producer: everything is checked
    COORDINATOR = "coordinator"  # a transaction or group coordinator: its batches have no sequences
    REPLICATION = "replication"  # a leader, which has checked everything
    RAFT_LEADER = "raft leader"  # the metadata quorum: brings its own offsets

    def __init__(self, name: str) -> None:
        # Whether the log assigns offsets to batches; otherwise the batches have their own.
        self.assigns_offsets = name in ("client", "coordinator")
