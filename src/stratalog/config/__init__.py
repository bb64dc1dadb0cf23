"""Kafka's settings under Kafka's names: `segment.bytes` in a configuration is `segment_bytes` in Python.

What comes through the API or from a topic is taken as the current Kafka takes it, or it is a ConfigError. A
broker's server.properties is read with more patience.
"""

from stratalog.config.properties import parse_properties
from stratalog.config.server import ServerConfig, read_server_properties
from stratalog.config.settings import LogConfig, ManagerConfig

__all__ = ["LogConfig", "ManagerConfig", "ServerConfig", "parse_properties", "read_server_properties"]
