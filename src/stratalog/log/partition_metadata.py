"""partition.metadata: the id of the topic that a partition directory belongs to.

version: 0
topic_id: CVmmc5E3Svq-PtfZ062cfg      no newline after it

The id is 16 bytes in base64 for URLs, 22 characters without padding. A topic that is deleted and created
again has the same name and another id, so a directory that is left over from the first topic is not mistaken
for one of the second. Kafka: PartitionMetadataFile, Uuid.
"""

from __future__ import annotations

import base64
import re
import threading
import uuid

from stratalog.errors import CorruptCheckpointError, UsageError
from stratalog.files.disk import Path, changing
from stratalog.files.names import PARTITION_METADATA, parse_number
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX
from stratalog.log.checkpoint_file import quoted

VERSION = 0
ZERO_ID = uuid.UUID(int=0)

_SEPARATOR = re.compile(r":[ \t\n\x0b\f\r]+")
_LINE_END = re.compile(r"\r\n|\r|\n")
_ID_LENGTH = 22
_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def topic_id_to_text(topic_id: uuid.UUID) -> str:
    """The 22 characters that Kafka prints for an id."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def topic_id_from_text(text: str) -> uuid.UUID:
    """The id in this text, as Kafka reads it; ValueError if it is not an id."""
    if not _ID.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a topic id: 22 letters, digits, '-' and '_'")
    data = base64.urlsafe_b64decode(text[:_ID_LENGTH] + "==")
    return uuid.UUID(bytes=data)


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """The bytes of the file."""
    return f"version: {VERSION}\ntopic_id: {topic_id_to_text(topic_id)}".encode()


def parse_partition_metadata(data: bytes, path: Path) -> uuid.UUID:
    """The topic id in the bytes of the file. A version above 0 is read like 0, as Kafka does."""
    try:
        lines = _LINE_END.split(data.decode())
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(path, 0, "it is not UTF-8.") from error
    version = parse_number(_field(path, lines, 0, "version"), -INT32_MAX - 1, INT32_MAX)
    if version is None or version < VERSION:
        raise CorruptCheckpointError(path, 1, f"{quoted(lines[0])} does not name a known version.")
    text = _field(path, lines, 1, "topic_id")
    try:
        topic_id = topic_id_from_text(text)
    except ValueError as error:
        raise CorruptCheckpointError(path, 2, f"{error}.") from error
    if topic_id == ZERO_ID:
        raise CorruptCheckpointError(path, 2, "an id of zeros is not a topic id.")
    return topic_id


def _field(path: Path, lines: list[str], at: int, name: str) -> str:
    if at >= len(lines) or not lines[at]:
        raise CorruptCheckpointError(path, at + 1, f"it ends before {name}.")
    parts = _SEPARATOR.split(lines[at])
    if len(parts) != 2:
        raise CorruptCheckpointError(path, at + 1, f"{quoted(lines[at])} is not '{name}: value'.")
    return parts[1]


class PartitionMetadataFile:
    """The file of one log. The next `flush` writes a recorded id, before the first append."""

    def __init__(self, disk: DiskReader, path: Path) -> None:
        self.path = path
        self._disk = disk
        self._lock = threading.Lock()
        self._recorded: uuid.UUID | None = None
        self._is_written = False

    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def read(self) -> uuid.UUID | None:
        """The topic id in the file; None if there is no file."""
        with self._lock:
            data = self._disk.read_file(self.path)
            return None if data is None else parse_partition_metadata(data, self.path)

    def record(self, topic_id: uuid.UUID) -> None:
        """Remember the id for the next `flush`; UsageError if another one was recorded before."""
        if topic_id == ZERO_ID:
            raise UsageError(f"{self.path}: an id of zeros is not a topic id.")
        with self._lock:
            if self._recorded is not None and self._recorded != topic_id:
                raise UsageError(
                    f"{self.path}: the topic id is {topic_id_to_text(self._recorded)}, it cannot become "
                    f"{topic_id_to_text(topic_id)}."
                )
            self._recorded = topic_id

    def flush(self) -> None:
        """Write the recorded id if it is not written yet; on the device when this returns."""
        with self._lock:
            if self._recorded is None or self._is_written:
                return
            changing(self._disk).replace(self.path, format_partition_metadata(self._recorded))
            self._is_written = True

    def delete(self) -> bool:
        """Delete the file; False if there was none."""
        with self._lock:
            self._is_written = False
            return changing(self._disk).delete(self.path)


def topic_id_of(disk: DiskReader, directory: str, *, wanted: uuid.UUID | None = None) -> uuid.UUID | None:
    """The topic id of a partition's directory; UsageError if it is not the `wanted` one.

    Kafka: InconsistentTopicIdException
    """
    metadata = PartitionMetadataFile(disk, join_path(directory, PARTITION_METADATA))
    known = metadata.read()
    if None not in (known, wanted) and known != wanted:
        raise UsageError(f"{metadata.path} says that the topic's id is {known}, so it cannot be {wanted}.")
    return known
