"""Records of Kafka's internal topics, decoded and encoded by their schemas.

dump_text  the text that Kafka's dump tool prints
encode     the writer of Kafka's messages, and of the records that hold them
json_text  the JSON that Kafka's tools print
kraft_snapshot  builds a snapshot of cluster metadata
schema     the reader of Kafka's message schemas
topics     which message a key and a value hold
wire       the primitive types of Kafka's messages

Not here: what the records mean together. Cluster metadata is in `directory/cluster_metadata.py`.
"""

from stratalog.records.internal.dump_text import Contents, control_contents, record_contents
from stratalog.records.internal.encode import (
    encode_control,
    encode_coordinator,
    encode_message,
    encode_metadata,
)
from stratalog.records.internal.json_text import to_json
from stratalog.records.internal.schema import Schema, decode_message, find_schema, schema_named
from stratalog.records.internal.topics import InternalRecord, decode_control, decode_internal
from stratalog.records.internal_topics import is_internal

__all__ = [
    "Contents",
    "InternalRecord",
    "Schema",
    "control_contents",
    "decode_control",
    "decode_internal",
    "decode_message",
    "encode_control",
    "encode_coordinator",
    "encode_message",
    "encode_metadata",
    "find_schema",
    "is_internal",
    "record_contents",
    "schema_named",
    "to_json",
]
