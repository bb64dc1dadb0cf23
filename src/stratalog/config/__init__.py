"""Kafka's settings under Kafka's names: `segment.bytes` in a configuration is `segment_bytes` in Python.

keys        what a setting is: how its text is read, its range, its names on a broker
properties  Java's properties files
quorum      the quorum of controllers, in a server.properties
server      a broker's server.properties, as far as it is about storage
settings    LogConfig and ManagerConfig: names, defaults and ranges of 4.3.1

Settings from the API or from a topic follow the rules of the current Kafka, or raise ConfigError. A broker's
server.properties is read more leniently. Not here: files of a log directory. The settings of each topic are
found in `directory/topic_configs.py`.
"""

from stratalog.config.properties import parse_properties
from stratalog.config.server import ServerConfig, read_server_properties
from stratalog.config.settings import LogConfig, ManagerConfig

__all__ = ["LogConfig", "ManagerConfig", "ServerConfig", "parse_properties", "read_server_properties"]
