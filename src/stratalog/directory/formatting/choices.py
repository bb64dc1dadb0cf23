"""What the caller of a format decides, and the defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from stratalog.config import ServerConfig, parse_properties, read_server_properties
from stratalog.config.keys import ConfigValue
from stratalog.config.quorum import (
    BROKER,
    CONTROLLER,
    DEFAULT_ENDPOINT,
    Endpoint,
    QuorumSettings,
    read_quorum_settings,
)
from stratalog.config.settings import LogConfig
from stratalog.directory.formatting.releases import DEFAULT_RELEASE
from stratalog.directory.topic_configs import parse_topics
from stratalog.errors import ConfigError, UsageError
from stratalog.files.names import parse_number
from stratalog.limits import INT32_MAX
from stratalog.log.partition_metadata import topic_id_from_text
from stratalog.records.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

DEFAULT_NODE_ID = 1
_MOST_PARTITIONS = 10_000  # of one topic; more is a typing error
_INTERNAL_COUNT = 50
_COUNT_SETTINGS = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.num.partitions",
}
# The settings that a broker gives its own topics when it creates them.
_INTERNAL_SETTINGS: dict[str, dict[str, ConfigValue]] = {
    CONSUMER_OFFSETS: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": 104857600,
    },
    TRANSACTION_STATE: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": 1,
        "segment.bytes": 104857600,
        "unclean.leader.election.enable": False,
    },
    SHARE_GROUP_STATE: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": 1,
        "retention.ms": -1,
        "segment.bytes": 104857600,
    },
}
# LogConfig has these too, but a topic cannot have them.
_ONLY_BROKERS = frozenset(
    {
        "producer.id.expiration.ms",
        "transaction.max.timeout.ms",
        "transaction.partition.verification.enable",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """What the caller decides. By default the cluster's id is generated, and the node's id is 1.

    `quorum` and `server` come from the server.properties that the broker will be started with
    (`from_properties`). Without them the metadata says that the controller listens at `controller`. The
    default is CONTROLLER on localhost:9093, as in the server.properties that Kafka ships. If that is wrong,
    the broker still starts, but other nodes cannot join. `partitions` has numbers of partitions by topic, for
    topics that have more partitions than the directories show. `topic_settings` is JSON: settings by topic.
    """

    cluster_id: str | None = None
    node_id: int | None = None
    metadata_directory: str | None = None
    quorum: QuorumSettings | None = None
    server: ServerConfig | None = None
    controller: Endpoint | None = None
    topic_settings: str | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    internal_partitions: Mapping[str, int] = field(default_factory=dict)
    release: str = DEFAULT_RELEASE
    dry_run: bool = False

    @classmethod
    def from_properties(cls, text: str) -> Self:
        """The options that follow from a broker's server.properties."""
        found = parse_properties(text)
        counts = {
            topic: parse_number(found[name], 1, INT32_MAX) or _INTERNAL_COUNT
            for topic, name in _COUNT_SETTINGS.items()
            if name in found
        }
        return cls(
            metadata_directory=found.get("metadata.log.dir") or None,
            quorum=read_quorum_settings(text),
            server=read_server_properties(text),
            internal_partitions=counts,
        )

    def decided_node_id(self) -> int:
        """The node's id; UsageError if server.properties has none, or another one than the option."""
        said = None if self.quorum is None else self.quorum.node_id
        if None not in (said, self.node_id) and said != self.node_id:
            raise UsageError(f"the node's id is given as {self.node_id}, but server.properties says {said}.")
        if self.quorum is not None and said is None:
            raise UsageError("server.properties has no node.id.")
        given = self.node_id if said is None else said
        return DEFAULT_NODE_ID if given is None else given

    def decided_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the controller listens; empty if server.properties names the voters, and so says it already.

        UsageError if the broker would not be a stand-alone one.
        """
        if self.quorum is None:
            return (self.controller or DEFAULT_ENDPOINT,)
        self._check_stand_alone(self.quorum)
        if self.quorum.voters:
            if self.controller is not None:
                raise UsageError(
                    "server.properties has controller.quorum.voters, which says where the controller "
                    "listens: leave the option for it out."
                )
            return ()
        if self.controller is not None:
            return (self.controller,)
        if not self.quorum.endpoints:
            raise UsageError(
                "server.properties does not say where the controller listens: it needs "
                "controller.listener.names, and a listener of this name in listeners."
            )
        return self.quorum.endpoints

    def _check_stand_alone(self, quorum: QuorumSettings) -> None:
        if quorum.roles != {BROKER, CONTROLLER}:
            said = ",".join(sorted(quorum.roles)) or "nothing"
            raise UsageError(
                f"server.properties says {said} for process.roles, but a stand-alone broker is "
                "process.roles=broker,controller. A broker of a larger cluster gets its metadata from the "
                "cluster: create the topics there, stop the broker, write, and start it again."
            )
        if quorum.voters and quorum.voters != (self.decided_node_id(),):
            raise UsageError(
                f"controller.quorum.voters names {', '.join(map(str, quorum.voters))}, but a stand-alone "
                f"broker has one voter, itself ({self.decided_node_id()})."
            )

    def checked_cluster_id(self) -> str | None:
        """The cluster's id; UsageError if Kafka would not accept it."""
        if self.cluster_id is not None:
            try:
                topic_id_from_text(self.cluster_id)  # all of Kafka's ids are written alike
            except ValueError:
                raise UsageError(
                    f"the cluster's id is {self.cluster_id!r}: Kafka wants 22 letters, digits, '-' and '_', "
                    "as `kafka-storage.sh random-uuid` prints them."
                ) from None
        return self.cluster_id

    def settings(self) -> dict[str, dict[str, str]]:
        """The settings of topics as text, by topic; ConfigError for a setting that Kafka would refuse."""
        given = {} if self.topic_settings is None else parse_topics(self.topic_settings)
        defaults = LogConfig() if self.server is None else self.server.log
        for settings in given.values():
            for name, value in settings.items():
                if name in _ONLY_BROKERS:
                    raise ConfigError(name, value, "only a broker can have it, not a topic")
            defaults.with_overrides(settings)
        merged = {
            topic: {**_INTERNAL_SETTINGS.get(topic, {}), **settings} for topic, settings in given.items()
        }
        return {
            topic: {name: _text(value) for name, value in sorted(settings.items())}
            for topic, settings in {**_INTERNAL_SETTINGS, **merged}.items()
        }

    def topics_with_settings(self) -> tuple[str, ...]:
        """The topics that `topic_settings` names."""
        return () if self.topic_settings is None else tuple(parse_topics(self.topic_settings))

    def partitions_of(self, topic: str, least: int, noted: int) -> int:
        """How many partitions a topic gets. Its folders need `least`; the Spark sink has noted `noted`."""
        asked = self.partitions.get(topic)
        if asked is None:
            internal = self.internal_partitions.get(topic, _INTERNAL_COUNT) if topic in _COUNT_SETTINGS else 0
            return max(least, noted, internal)
        if not 0 < asked <= _MOST_PARTITIONS:
            raise UsageError(f"{topic} cannot have {asked} partitions: give 1 to {_MOST_PARTITIONS}.")
        if asked < least:
            raise UsageError(
                f"{topic} cannot have {asked} partitions: {topic}-{least - 1} exists. Give {least} or more."
            )
        return asked


def _text(value: ConfigValue) -> str:
    """A value as Kafka writes it in a configuration."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | frozenset):
        return ",".join(sorted(value) if isinstance(value, frozenset) else value)
    return str(value)
