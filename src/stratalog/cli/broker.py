"""What the command line and a server.properties say about a broker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stratalog.config import ServerConfig, parse_properties, read_server_properties
from stratalog.config.quorum import split_values
from stratalog.errors import UsageError
from stratalog.files.names import parse_number
from stratalog.limits import INT32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFiles:
    """The log directories to work on, and what the broker's server.properties says, if it was given."""

    directories: tuple[str, ...]
    server: ServerConfig | None = None
    metadata_directory: str | None = None
    node_id: int | None = None
    roles: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Path | None, directories: tuple[str, ...]) -> BrokerFiles:
        """Read server.properties. UsageError if no directory is named, in the arguments or in the file.

        Kafka's default, /tmp/kafka-logs, is not used: it is hardly ever what the user wants.
        """
        if config is None:
            if not directories:
                raise UsageError(
                    "name the log directories, or give the broker's server.properties with --config."
                )
            return cls(directories=directories)
        # Java reads properties as Latin-1.
        text = config.read_text("latin-1")
        found = parse_properties(text)
        if not directories and not found.get("log.dirs") and not found.get("log.dir"):
            raise UsageError(
                f"{config} has neither log.dirs nor log.dir: name the log directories, or check that it is "
                "the broker's server.properties."
            )
        server = read_server_properties(text)
        return cls(
            directories=directories or server.manager.log_dirs,
            server=server,
            metadata_directory=found.get("metadata.log.dir") or None,
            roles=tuple(split_values(found.get("process.roles", ""))),
            node_id=parse_number(found.get("node.id", found.get("broker.id", "")), 0, INT32_MAX),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.server is None else self.server.notes

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """All directories of the broker, as far as known."""
        return () if self.server is None else self.server.manager.log_dirs

    @property
    def metadata_place(self) -> str | None:
        """Where the broker looks for its cluster's metadata; None if that is not known."""
        if self.metadata_directory is not None:
            return self.metadata_directory
        known = {os.path.realpath(directory) for directory in self.log_dirs}
        is_own = {os.path.realpath(directory) for directory in self.directories} <= known
        return self.log_dirs[0] if is_own else None

    def in_order(self) -> tuple[str, ...]:
        """The directories in the order of log.dirs: by default, the first has the metadata."""
        order = [os.path.realpath(directory) for directory in self.log_dirs]
        names = {os.path.realpath(directory): directory for directory in self.directories}
        known = [names[path] for path in order if path in names]
        return (*known, *(directory for directory in self.directories if directory not in known))

    def not_named(self) -> list[str]:
        """The other directories of the broker, which the command does not work on."""
        named = {os.path.realpath(directory) for directory in self.directories}
        return [directory for directory in self.log_dirs if os.path.realpath(directory) not in named]
