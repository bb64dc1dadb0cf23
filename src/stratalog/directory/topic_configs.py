"""The configuration of each topic: its own settings override its broker's.

    Kafka's defaults < server.properties < dynamic settings of all brokers < of this one < of the topic

The last three are in the cluster's metadata. A user's JSON file can replace or override the metadata:

    {"orders": {"cleanup.policy": "compact"}, "events": {"retention.ms": 86400000}}

Kafka: LogConfig.fromProps, DynamicBrokerConfig
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Self

from stratalog.config import LogConfig, ServerConfig
from stratalog.config.keys import ConfigValue
from stratalog.config.server import broker_settings
from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.errors import ConfigError, InvalidNameError, UsageError
from stratalog.files.names import check_topic_name

Settings = Mapping[str, ConfigValue]


class TopicConfigs:
    """The configuration of any topic; `defaults` for a topic without its own settings.

    `notes` name settings of a cluster that are ignored, because Kafka 4.3.1 would refuse them.
    """

    def __init__(
        self, defaults: LogConfig | None = None, overrides: Mapping[str, Settings] | None = None
    ) -> None:
        self.defaults = LogConfig() if defaults is None else defaults
        self.notes: list[str] = []
        self._configs = {
            topic: self.defaults.with_overrides(settings) for topic, settings in (overrides or {}).items()
        }

    @classmethod
    def from_metadata(
        cls, metadata: ClusterMetadata, *, server: ServerConfig | None = None, node_id: int | None = None
    ) -> Self:
        """The settings in a cluster's metadata, which override those of a broker's server.properties."""
        configs = cls(None if server is None else server.log)
        for name in ("", str(node_id)):
            settings = metadata.broker_configs.get(name, {})
            configs.defaults = configs._over(configs.defaults, dict(broker_settings(LogConfig, settings)))
        for topic, settings in metadata.topic_configs.items():
            configs._configs[topic] = configs._over(configs.defaults, settings, topic)
        return configs

    def with_file(self, text: str) -> Self:
        """This configuration, overridden by a user's JSON; a wrong setting in it is an error."""
        found = parse_topics(text)
        other = type(self)(self.defaults)
        other.notes = list(self.notes)
        other._configs = {**self._configs}
        for topic, settings in found.items():
            other._configs[topic] = self.of(topic).with_overrides(settings)
        return other

    def of(self, topic: str) -> LogConfig:
        """The configuration of a topic."""
        return self._configs.get(topic, self.defaults)

    def has(self, topic: str) -> bool:
        """Whether the topic has its own settings."""
        return topic in self._configs

    def update(self, topic: str, settings: Settings) -> LogConfig:
        """Replace the topic's own settings."""
        config = self._configs[topic] = self.defaults.with_overrides(settings)
        return config

    def _over(self, config: LogConfig, settings: Settings, topic: str = "") -> LogConfig:
        """Apply settings of a cluster. Those that Kafka 4.3.1 would refuse are ignored, with a note."""
        for name, value in settings.items():
            try:
                config = config.with_overrides({name: value})
            except ConfigError as error:
                self.notes.append(
                    f"{f'topic {topic}' if topic else 'broker'}: {error} The setting is ignored."
                )
        return config


def parse_topics(text: str) -> dict[str, dict[str, ConfigValue]]:
    """The settings of each topic that a user's JSON names."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"the settings of topics are not JSON: {error}.") from error
    if not isinstance(found, dict) or not all(isinstance(settings, dict) for settings in found.values()):
        raise UsageError('the settings of topics must be JSON of the form {"topic": {"setting": value}}.')
    for topic in found:
        try:
            check_topic_name(topic)
        except InvalidNameError as error:
            raise UsageError(f"the settings of topics contain an invalid topic name: {error}") from error
    return found
