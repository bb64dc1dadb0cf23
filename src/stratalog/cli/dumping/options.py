"""The options of a dump; the names are those of Kafka's options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stratalog.limits import INT32_MAX
from stratalog.records import internal_topics


class Decoder(Enum):
    """How records are decoded; the value is the topic whose records Kafka's decoder reads."""

    TEXT = ""
    OFFSETS = internal_topics.CONSUMER_OFFSETS
    TRANSACTION_LOG = internal_topics.TRANSACTION_STATE
    CLUSTER_METADATA = internal_topics.CLUSTER_METADATA
    REMOTE_LOG_METADATA = "__remote_log_metadata"
    SHARE_GROUP_STATE = internal_topics.SHARE_GROUP_STATE


class FieldDecoder(Enum):
    """How a key or a value is decoded; the value is the name of Kafka's class for it."""

    STRING = "org.apache.kafka.tools.api.StringDecoder"
    INTEGER = "org.apache.kafka.tools.api.IntegerDecoder"
    LONG = "org.apache.kafka.tools.api.LongDecoder"
    DEFAULT = "org.apache.kafka.tools.api.DefaultDecoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """How files are dumped. `position` is the byte of a .log or .checkpoint file to start at."""

    deep: bool = False
    print_data: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int = INT32_MAX
    decoder: Decoder = Decoder.TEXT
    key_decoder: FieldDecoder = FieldDecoder.STRING
    value_decoder: FieldDecoder = FieldDecoder.STRING
    position: int = 0

    @property
    def decodes(self) -> bool:
        """Whether keys and values need decoding, rather than printing as text."""
        fields = {self.key_decoder, self.value_decoder}
        return self.decoder is not Decoder.TEXT or fields != {FieldDecoder.STRING}
