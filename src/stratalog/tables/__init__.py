"""Kafka's data about itself, as scans: groups, commits, transactions, metadata, partitions, lag.

internal    internal topics, record by record or as their current state
partitions  each partition with its offsets, size and times, and the lag of groups
sources     what a scan of a table reads: decoded records, or a table that is computed

Not here: how messages are decoded (`jobs/tables.py`).
"""

from stratalog.tables.internal import (
    COMMIT_SCHEMA,
    GROUP_SCHEMA,
    MEMBER_SCHEMA,
    TRANSACTION_SCHEMA,
    cluster_metadata,
    commits,
    consumer_offsets,
    groups,
    members,
    transaction_state,
    transactions,
)
from stratalog.tables.partitions import LAG_SCHEMA, PARTITION_SCHEMA, lag, partitions

# The schemas of the computed tables, by the names of the functions that return the tables.
SCHEMAS = {
    "commits": COMMIT_SCHEMA,
    "groups": GROUP_SCHEMA,
    "lag": LAG_SCHEMA,
    "members": MEMBER_SCHEMA,
    "partitions": PARTITION_SCHEMA,
    "transactions": TRANSACTION_SCHEMA,
}

__all__ = [
    "cluster_metadata",
    "commits",
    "consumer_offsets",
    "groups",
    "lag",
    "members",
    "partitions",
    "transaction_state",
    "transactions",
]
