"""The quorum of controllers in a server.properties: this node's id and roles, and its controller's addresses.

controller.quorum.voters                lists the voters, in each node's settings
controller.quorum.bootstrap.servers     only addresses; the voters are in the metadata log

Kafka: QuorumConfig, KRaftConfigs, StorageTool
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from stratalog.config.properties import parse_properties
from stratalog.errors import ConfigError
from stratalog.limits import INT32_MAX

BROKER, CONTROLLER = "broker", "controller"
DEFAULT_LISTENER = "CONTROLLER"
DEFAULT_HOST, DEFAULT_PORT = "localhost", 9093
_LISTENER = re.compile(r"([^:]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})")
_VOTER = re.compile(r"([0-9]{1,10})@(.+):([0-9]{1,5})")
_LARGEST_PORT = 65535


class Endpoint(NamedTuple):
    """Where a controller listens, under the name of one of its listeners."""

    listener: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """As in controller.quorum.bootstrap.servers."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


DEFAULT_ENDPOINT = Endpoint(DEFAULT_LISTENER, DEFAULT_HOST, DEFAULT_PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """What a server.properties says about the quorum.

    `voters` are the ids in controller.quorum.voters; empty if they are in the metadata log. `endpoints`
    are those of this node's controller.
    """

    node_id: int | None = None
    roles: frozenset[str] = frozenset()
    voters: tuple[int, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()


def read_quorum_settings(text: str) -> QuorumSettings:
    """The settings of the quorum in a server.properties; ConfigError for a value that a broker refuses."""
    found = parse_properties(text)
    names = split_values(found.get("controller.listener.names", ""))
    advertised = _listeners("advertised.listeners", found)
    bound = _listeners("listeners", found)
    known = {**bound, **advertised}
    return QuorumSettings(
        node_id=_number("node.id", found.get("node.id", found.get("broker.id")), INT32_MAX),
        roles=frozenset(split_values(found.get("process.roles", ""))),
        voters=tuple(_voter(one) for one in split_values(found.get("controller.quorum.voters", ""))),
        # An empty host means every address of the machine. The controller of a single node is always reached
        # from the machine itself.
        endpoints=tuple(
            known[name]._replace(host=known[name].host or DEFAULT_HOST) for name in names if name in known
        ),
    )


def parse_endpoint(text: str) -> Endpoint:
    """Parse HOST:PORT, or NAME://HOST:PORT if the listener is not CONTROLLER; else ConfigError."""
    match = _LISTENER.fullmatch(text if "://" in text else f"{DEFAULT_LISTENER}://{text}")
    if match is None or not match[2] or not 0 < int(match[3]) <= _LARGEST_PORT:
        raise ConfigError("controller", text, "it must be host:port, or listener://host:port")
    return Endpoint(match[1], match[2], int(match[3]))


def _listeners(name: str, found: dict[str, str]) -> dict[str, Endpoint]:
    endpoints = {}
    for one in split_values(found.get(name, "")):
        match = _LISTENER.fullmatch(one)
        if match is None or int(match[3]) > _LARGEST_PORT:
            raise ConfigError(name, one, "each must be listener://host:port")
        endpoints[match[1]] = Endpoint(match[1], match[2], int(match[3]))
    return endpoints


def _voter(text: str) -> int:
    match = _VOTER.fullmatch(text)
    if match is None:
        raise ConfigError("controller.quorum.voters", text, "each must be id@host:port")
    return int(match[1])


def _number(name: str, text: str | None, largest: int) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,10}", text.strip()) or int(text) > largest:
        raise ConfigError(name, text, f"it must be a whole number from 0 to {largest}")
    return int(text)


def split_values(text: str) -> list[str]:
    """The values of a list in a server.properties."""
    return [part.strip() for part in text.split(",") if part.strip()]
