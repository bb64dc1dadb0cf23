"""Kafka's own topics by name: the one place that says what an internal topic is.

Kafka calls three of them internal (Topic.INTERNAL_TOPICS). The fourth, the log of the metadata quorum, is not
a topic to clients at all. Here it counts as internal: only Kafka writes it, and a read includes it only if
the caller names it.
"""

from __future__ import annotations

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
# The topics whose records a coordinator writes, with a typed key.
COORDINATOR_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
INTERNAL_TOPICS = COORDINATOR_TOPICS | {CLUSTER_METADATA}


def is_internal(topic: str) -> bool:
    """Whether this is one of Kafka's own topics, whose records `decode_internal` knows."""
    return topic in INTERNAL_TOPICS
