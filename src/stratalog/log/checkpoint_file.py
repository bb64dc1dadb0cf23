"""Checkpoints: offsets by partition, and leader epochs, in a text file that is replaced as a whole.

0                     version
2                     how many lines follow
topic 0 17            topic, partition, offset; in leader-epoch-checkpoint: epoch, start offset
other 3 5             each line ends with a newline, the last one too

An offset checkpoint has its lines in any order. A new version is written beside the file, synced and renamed,
so that a crash leaves the old one or the new one. Kafka: CheckpointFile, OffsetCheckpointFile,
LeaderEpochCheckpointFile.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from stratalog.errors import CheckpointNumberError, CorruptCheckpointError, DiskError
from stratalog.files.disk import Disk, Path, changing
from stratalog.files.names import TopicPartition, parse_number
from stratalog.files.paths import parent_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX, INT64_MAX, INT64_MIN
from stratalog.log.guard import refuse_if_inside

VERSION = 0

PartitionOffsets = dict[TopicPartition, int]

Entry = TypeVar("Entry")
# Turns the fields of one line into its entry; None for a wrong number of fields, ValueError for text that is
# not a number.
ParseFields = Callable[[list[str]], Entry | None]

# Java's \s and BufferedReader.readLine; Python's equivalents accept more kinds of white space and line ends.
_BLANKS = re.compile(r"[ \t\n\x0b\f\r]+")
_LINE_END = re.compile(r"\r\n|\r|\n")
_LONGEST_QUOTE = 200
# An offset checkpoint as brokers write it, with numbers of so few digits that each fits its type.
_PLAIN = re.compile(rb"0\n([0-9]{1,9})\n((?:[A-Za-z0-9._-]+ [0-9]{1,9} [0-9]{1,18}\n)*)")


def read_checkpoint(disk: DiskReader, path: Path, parse: ParseFields[Entry]) -> list[Entry]:
    """The entries of a checkpoint, in the file's order; none if there is no file. Reading creates nothing."""
    data = disk.read_file(path)
    return [] if data is None else parse_checkpoint(data, parse, path)


def write_checkpoint(disk: Disk, path: Path, lines: Iterable[str]) -> None:
    """Replace the checkpoint by one with these lines; on the device when this returns."""
    disk.replace(path, format_checkpoint(lines))


def format_checkpoint(lines: Iterable[str]) -> bytes:
    """The bytes of a checkpoint. Without entries the file is not empty: it says that there are 0."""
    body = list(lines)
    return "".join(f"{line}\n" for line in [str(VERSION), str(len(body)), *body]).encode()


def parse_checkpoint(data: bytes, parse: ParseFields[Entry], path: Path) -> list[Entry]:
    """The entries in the bytes of a checkpoint; CorruptCheckpointError names the line that is wrong.

    A file that is empty or ends after its version has no entries: a crash of an old release left such files.
    """
    try:
        lines = _LINE_END.split(data.decode())
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(path, 0, "it is not UTF-8.") from error
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return []
    version = parse_number(lines[0], -INT32_MAX - 1, INT32_MAX)
    if version != VERSION:
        raise CorruptCheckpointError(path, 1, f"the version is {quoted(lines[0])}, only {VERSION} is known.")
    if len(lines) == 1:
        return []
    count = parse_number(lines[1], -INT32_MAX - 1, INT32_MAX)
    if count is not None and count < 0:
        raise CheckpointNumberError(path, 2, f"{quoted(lines[1])} is not a number of entries.")
    if count is None:
        raise CorruptCheckpointError(path, 2, f"{quoted(lines[1])} is not a number of entries.")
    entries = [_parse_line(path, number, line, parse) for number, line in enumerate(lines[2:], 3)]
    if len(entries) != count:
        raise CorruptCheckpointError(path, 2, f"the file announces {count} entries, but has {len(entries)}.")
    return entries


def _parse_line(path: Path, number: int, line: str, parse: ParseFields[Entry]) -> Entry:
    fields = _BLANKS.split(line)
    # as in Java's split: a trailing blank is ignored, a leading one makes an empty field
    while fields and not fields[-1]:
        fields.pop()
    try:
        entry = parse(fields)
    except ValueError as error:
        raise CheckpointNumberError(path, number, f"{quoted(line)}: {error}") from error
    if entry is None:
        raise CorruptCheckpointError(path, number, f"{quoted(line)} does not have the expected fields.")
    return entry


def quoted(text: str) -> str:
    """Text of a file for a message, shortened: a damaged line can be as long as its file."""
    if text and not text.strip("\0"):
        return f"{len(text)} zero bytes"
    return repr(text) if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]!r}..."


def int32_field(text: str) -> int:
    """A number of 32 bits in a line; ValueError for anything else."""
    return _number_field(text, -INT32_MAX - 1, INT32_MAX)


def int64_field(text: str) -> int:
    """A number of 64 bits in a line; ValueError for anything else."""
    return _number_field(text, INT64_MIN, INT64_MAX)


def _number_field(text: str, lowest: int, highest: int) -> int:
    number = parse_number(text, lowest, highest)
    if number is None:
        raise ValueError(f"{quoted(text)} is not a number from {lowest} to {highest}.")
    return number


class OffsetCheckpointFile:
    """One of the offset checkpoints of a log directory; thread-safe.

    A signal handler in the middle of a write is refused: the older offsets would be written over its newer
    ones.
    """

    def __init__(self, disk: DiskReader, path: Path) -> None:
        self.path = path
        self._disk = disk
        self._lock: Any = threading.RLock()  # Any: its `_is_owned` is missing in its type
        self._is_in_doubt = False  # a write has failed or was interrupted: its rename may not be synced

    def read(self) -> dict[TopicPartition, int]:
        """The offset of each partition; if a partition has two lines, the later one is used."""
        with self._lock:
            data = self._disk.read_file(self.path)
            return {} if data is None else parse_offsets(data, self.path)

    def check_outside(self) -> None:
        """UsageError if this thread is in the middle of a write of the file, which a handler interrupts."""
        refuse_if_inside(os.fspath(self.path), self._lock)

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file by these offsets (`with_lines`); on the device when this returns."""
        with self._writing():
            self._write(offsets)

    def write_latest(self, make: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """As `write`, but gets the offsets while nobody else writes, so that they are never outdated."""
        with self._writing():
            self._write(make())

    def update(
        self,
        change: Callable[[PartitionOffsets], PartitionOffsets],
        *,
        read: Callable[[], PartitionOffsets] | None = None,
    ) -> bool:
        """Replace the content by the result of `change`, if that is different; True if the file was written.

        The content is on the device when this returns, even if an earlier write of it was interrupted.
        Nobody else writes meanwhile. The argument `read` replaces the method `read`, for a caller that
        accepts a damaged file.
        """
        with self._writing():
            known = self.read() if read is None else read()
            wanted = with_lines(change(known))
            if wanted == known and not self._is_in_doubt:
                return False
            self._write(wanted)
            return True

    def write_if_directory_exists(self, offsets: Mapping[TopicPartition, int]) -> None:
        """As `write`, but a directory that was removed meanwhile is not an error."""
        try:
            self.write(offsets)
        except DiskError:
            if directory_exists(self._disk, self.path):
                raise

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self.check_outside()
        with self._lock:
            yield

    def _write(self, offsets: Mapping[TopicPartition, int]) -> None:
        lines = [
            f"{topic} {partition} {offset}" for (topic, partition), offset in with_lines(offsets).items()
        ]
        self._is_in_doubt = True
        write_checkpoint(changing(self._disk), self.path, lines)
        self._is_in_doubt = False


def with_lines(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offsets of partitions that a line can name.

    A folder may be called `my topic-0`, or have bytes in its name that are not UTF-8. A broker sets it aside
    as -stray, as no topic has such a name. A line for it would make the whole file unreadable.
    """
    return {key: offset for key, offset in offsets.items() if _has_line(key.topic)}


def _has_line(topic: str) -> bool:
    if topic.isascii() and topic.isprintable() and " " not in topic:
        return True
    is_encodable = topic == topic.encode(errors="ignore").decode()
    return is_encodable and _BLANKS.search(topic) is None


def parse_offsets(data: bytes, path: Path) -> dict[TopicPartition, int]:
    """The offsets in the bytes of a checkpoint; CorruptCheckpointError names the line that is wrong."""
    # A log directory's checkpoint has thousands of lines, and opening one log reads them several times.
    if (plain := _PLAIN.fullmatch(data)) is not None:
        words = plain[2].decode().split()
        if len(words) == 3 * int(plain[1]):
            keys = map(TopicPartition, words[::3], map(int, words[1::3]))
            return dict(zip(keys, map(int, words[2::3]), strict=True))
    return dict(parse_checkpoint(data, _parse_offset, path))


def directory_exists(disk: DiskReader, path: Path) -> bool:
    """Whether the directory of the file exists."""
    return disk.exists(parent_path(os.fspath(path)) or ".")


def _parse_offset(fields: list[str]) -> tuple[TopicPartition, int] | None:
    if len(fields) != 3:
        return None
    topic, partition, offset = fields
    return TopicPartition(topic, int32_field(partition)), int64_field(offset)
