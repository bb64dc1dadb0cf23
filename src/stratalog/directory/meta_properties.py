"""meta.properties: which node of which cluster a log directory belongs to.

#
#Sun Nov 15 21:56:16 UTC 2026
node.id=1
directory.id=jkXBCQ7L9FXzQeGWYPU3MQ      identifies this directory of the node; since 3.7
version=1                                0, with broker.id instead of node.id, before KRaft
cluster.id=rHefJaIxR-W46knXddBQhg

Kafka: MetaProperties, MetaPropertiesEnsemble, PropertiesUtils.writePropertiesFile
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from stratalog.config import parse_properties
from stratalog.errors import CorruptCheckpointError, UsageError
from stratalog.files.disk import Disk, Path
from stratalog.files.names import META_PROPERTIES, parse_number
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX
from stratalog.log.checkpoint_file import quoted
from stratalog.log.partition_metadata import topic_id_from_text

VERSIONS = (0, 1)
_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
# Directory ids with a special meaning: lost, unassigned, migrating.
RESERVED_IDS = frozenset({"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of the file; None for a missing field."""

    version: int = 1
    node_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None

    @property
    def is_kraft(self) -> bool:
        """Whether it was formatted for a KRaft cluster, all of whose topics have ids."""
        return self.version >= 1


def read_meta_properties(disk: DiskReader, directory: Path) -> MetaProperties | None:
    """Read the `meta.properties` of a log directory; None if it has none."""
    path = _path(directory)
    data = disk.read_file(path)
    return None if data is None else parse_meta_properties(data, path)


def write_meta_properties(disk: Disk, directory: Path, properties: MetaProperties, *, now_ms: int) -> None:
    """Replace the file; on the device when this returns."""
    disk.replace(_path(directory), format_meta_properties(properties, now_ms=now_ms))


def parse_meta_properties(data: bytes, path: Path) -> MetaProperties:
    """Parse the bytes of the file; CorruptCheckpointError if a broker would refuse to start with them."""
    # Java reads properties as Latin-1; what it writes beyond ASCII is escaped.
    found = parse_properties(data.decode("latin-1"))
    if "version" not in found:
        is_zeroed = bool(data) and not data.strip(b"\0")
        raise CorruptCheckpointError(path, 0, "It is all zeros." if is_zeroed else "It has no version.")
    version = parse_number(found["version"], 0, INT32_MAX)
    if version not in VERSIONS:
        raise CorruptCheckpointError(path, 0, f"Its version is {quoted(found['version'])}, not 0 or 1.")
    name = "node.id" if version else "broker.id"
    node_id = None
    if name in found:
        node_id = parse_number(found[name], -INT32_MAX - 1, INT32_MAX)
        if node_id is None:
            raise CorruptCheckpointError(
                path, 0, f"Its {name} is {quoted(found[name])}, which is not a number."
            )
    return MetaProperties(
        version=version,
        node_id=node_id,
        cluster_id=found.get("cluster.id"),
        directory_id=found.get("directory.id"),
    )


def format_meta_properties(properties: MetaProperties, *, now_ms: int) -> bytes:
    """The bytes of the file, with the date that Java puts into every properties file."""
    if properties.directory_id in RESERVED_IDS:
        raise UsageError(f"{properties.directory_id} is reserved: it cannot be the id of a directory.")
    when = datetime.fromtimestamp(now_ms // 1000, UTC)
    # Java's English names of days and months, independent of this process's locale.
    day, month = _DAYS[when.weekday()], _MONTHS[when.month - 1]
    lines = ["#", f"#{day} {month} {when:%d %H:%M:%S} UTC {when:%Y}"]
    if properties.node_id is not None:
        lines.append(f"{'node.id' if properties.version else 'broker.id'}={properties.node_id}")
    if properties.directory_id is not None:
        lines.append(f"directory.id={properties.directory_id}")
    lines.append(f"version={properties.version}")
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={properties.cluster_id}")
    return "".join(f"{line}\n" for line in lines).encode("latin-1")


def directory_id_problem(text: str) -> str | None:
    """Why a broker does not accept this as the id of a directory; None if it accepts it."""
    if text in RESERVED_IDS:
        return f"Its directory.id is {text}, which is reserved."
    try:
        topic_id_from_text(text)  # all of Kafka's ids are written alike
    except ValueError as error:
        return f"Its directory.id is not an id: {error}."
    return None


def _path(directory: Path) -> str:
    return join_path(os.fspath(directory), META_PROPERTIES)
