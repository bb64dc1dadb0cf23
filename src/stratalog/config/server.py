"""A broker's server.properties, as far as it is about storage.

The file also holds other settings, which are ignored and never shown: some are passwords. Values that were
legal before 4.0 are accepted, with a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stratalog.config.keys import ConfigKey, Configuration, ConfigValue, config_keys, parse_value
from stratalog.config.properties import parse_properties
from stratalog.config.settings import LogConfig, ManagerConfig
from stratalog.errors import ConfigError


class ServerConfig(NamedTuple):
    """The storage settings of a server.properties; `notes` are sentences on outdated settings."""

    manager: ManagerConfig
    log: LogConfig
    notes: tuple[str, ...]


def read_server_properties(text: str) -> ServerConfig:
    """The storage settings in a broker's server.properties. All others are ignored, and never shown."""
    found = parse_properties(text)
    notes: list[str] = []
    log_settings = dict(broker_settings(LogConfig, found))
    log_settings.update(_older_settings(log_settings, found, notes))
    manager = ManagerConfig.of(dict(broker_settings(ManagerConfig, found)))
    return ServerConfig(manager, LogConfig.of(log_settings), tuple(notes))


def broker_settings(kind: type[Configuration], found: Mapping[str, str]) -> Iterator[tuple[str, ConfigValue]]:
    """The broker's value of each setting, under the name of the topic's setting and in its unit."""
    for name, key in config_keys(kind).items():
        given = next(((alias, unit) for alias, unit in key.broker if alias in found), None)
        if given is None:
            continue
        alias, unit = given
        if alias == "log.segment.bytes":
            yield from _segment_bytes(found[alias], key)
            continue
        if unit != 1:
            key = key._replace(kind="int")  # the broker's type for hours and minutes
        if name == "retention.ms":
            yield name, _broker_retention(alias, key, found[alias], unit)
            continue
        value = parse_value(alias, key, found[alias])
        yield name, value if unit == 1 else value * unit


def _segment_bytes(text: str, key: ConfigKey) -> Iterator[tuple[str, ConfigValue]]:
    """log.segment.bytes; a value that was legal only before 4.0 becomes internal.segment.bytes."""
    size = parse_value("log.segment.bytes", key._replace(low=14), text)
    assert key.low is not None
    yield ("segment.bytes", size) if size >= key.low else ("internal.segment.bytes", size)


def _broker_retention(alias: str, key: ConfigKey, text: str, unit: int) -> int:
    value: int = parse_value(alias, key._replace(low=None), text)
    if value == 0:
        raise ConfigError(alias, value, "a broker's retention must be -1 (unlimited) or at least 1")
    return -1 if value < 0 else value * unit


def _older_settings(
    settings: Mapping[str, ConfigValue], found: Mapping[str, str], notes: list[str]
) -> Iterator[tuple[str, ConfigValue]]:
    """Settings of releases before 4.0: applied if they still have a meaning, and always noted."""
    if "internal.segment.bytes" in settings:
        notes.append(
            f"log.segment.bytes = {settings['internal.segment.bytes']} is legal only up to Kafka 3.9; "
            "4.0 requires at least 1048576. The value is used here."
        )
    difference = "log.message.timestamp.difference.max.ms"
    if difference in found:
        value = parse_value(difference, ConfigKey("long", low=0), found[difference])
        notes.append(f"{difference} was removed in Kafka 4.0; it still sets the limits that replaced it.")
        for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
            if name not in settings:
                yield name, value
    for name in ("log.message.format.version", "log.message.downconversion.enable"):
        if name in found:
            notes.append(f"{name} was removed in Kafka 4.0 and is ignored.")
