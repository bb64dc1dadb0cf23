"""`append`: appends lines as records to a lone log, until the input ends or a line is wrong.

A line is a value. With a delimiter it is a key and a value. Or it is a JSON object, as `cat -J` prints it.
Lines are appended as soon as they arrive, so a slow input does not wait for a full batch, and at most
`READ_SIZE` bytes of whole lines are held. A wrong line ends the command: the lines before it are appended,
but not this line or any after it. A stop, such as Ctrl-C, ends it too: lines that were read whole are
appended.
"""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Protocol, cast
from uuid import uuid4

from stratalog.clock import Clock, system_clock
from stratalog.directory.kind import are_brokers, is_partition_name
from stratalog.directory.open_log import open_log
from stratalog.errors import (
    InvalidNameError,
    InvalidTimestampError,
    RecordTooLargeError,
    RecordValidationError,
    UsageError,
)
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.names import FileKind
from stratalog.files.paths import absolute_path, last_name, parent_path
from stratalog.files.refusals import Refusing
from stratalog.limits import INT64_MAX
from stratalog.log.api.partition_log import PartitionLog
from stratalog.log.new_records import NewRecord
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, sentence
from stratalog.records.base64_text import BASE64, from_base64
from stratalog.records.batch import NO_TIMESTAMP
from stratalog.records.build import Header
from stratalog.records.compression import CodecName
from stratalog.signals import GracefulStop

READ_SIZE = 1 << 18
# The first lines of a run are appended in small batches, for which plain Python is quick enough: kernels may
# have to be compiled for larger ones, which takes seconds.
FIRST_SIZE = 16 << 10
_RECORD_OVERHEAD = 16  # bytes, approximately
_KNOWN_FIELDS = {"key", "payload", "value", "headers", "ts", "encoding"}
# Errors about single records. If one is raised, no record of the batch is appended.
_RECORD_REFUSALS = (RecordTooLargeError, InvalidTimestampError, RecordValidationError)
# Stands for a number in JSON, until its text replaces it: no other text has it.
_MARK = uuid4().hex
_PLACE_FIELDS = {"topic", "partition", "offset", "tstype", "broker"}  # of `cat -J`; ignored


@dataclass(frozen=True, slots=True)
class _Number:
    """A number with a fraction or an exponent, as it is written: as a float it might change."""

    text: str

    def __repr__(self) -> str:
        return self.text


class LineInput(Protocol):
    """Where lines come from: `read1` returns the bytes that have arrived, and b"" at the end."""

    def read1(self, size: int, /) -> bytes: ...


ParseLine = Callable[[bytes], NewRecord]
"""A line without its end as a record; ValueError says what is wrong with it."""


def value_of_line(line: bytes) -> NewRecord:
    """The whole line is the value."""
    return NewRecord(line)


def keyed_line(delimiter: bytes, *, empty_is_null: bool = False) -> ParseLine:
    """Lines with a key before the first delimiter and a value after it."""

    def parse(line: bytes) -> NewRecord:
        key, found, value = line.partition(delimiter)
        if not found:
            raise ValueError(f"it has no {delimiter.decode(errors='backslashreplace')!r} after a key")
        return NewRecord(None if empty_is_null and not value else value, key)

    return parse


def json_line(line: bytes) -> NewRecord:
    """A JSON object with key and payload, and maybe ts and headers, as `cat -J` prints it."""
    try:
        found = json.loads(line, parse_float=_Number, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    unknown = found.keys() - _KNOWN_FIELDS - _PLACE_FIELDS
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]!r} is not one of {', '.join(sorted(_KNOWN_FIELDS))}")
    if "payload" in found and "value" in found:
        raise ValueError("payload and value are the same: give one of them")
    if found.get("encoding") not in (None, BASE64):
        raise ValueError(f"encoding is not {BASE64!r}, the only one there is")
    content = _content if found.get("encoding") is None else from_base64
    return NewRecord(
        content(found.get("payload", found.get("value"))),
        content(found.get("key")),
        _headers(found.get("headers"), content),
        _time(found.get("ts")),
    )


def _content(value: Any) -> bytes | None:  # Any: a value of JSON
    """Text as its bytes; an object, a list or a number as JSON."""
    if value is None or isinstance(value, str):
        return None if value is None else _utf8(value)
    numbers: list[str] = []

    def mark(number: _Number) -> str:
        numbers.append(number.text)
        return _MARK

    try:
        text = json.dumps(value, default=mark, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("its payload or key is nested too deeply") from None
    first, *others = text.split(f'"{_MARK}"')
    return _utf8("".join([first, *chain.from_iterable(zip(numbers, others, strict=True))]))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} cannot be written in UTF-8") from None


def _headers(
    found: Any, content: Callable[[Any], bytes | None]
) -> tuple[Header, ...]:  # Any: a value of JSON
    """[name, value, name, value, ...]."""
    if found is None:
        return ()
    if not isinstance(found, list) or len(found) % 2:
        raise ValueError("headers are not a list of names and values, one after the other")
    names, values = found[::2], found[1::2]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("the name of a header is not text")
    if not all(value is None or isinstance(value, str) for value in values):
        raise ValueError("the value of a header is neither text nor null")
    for name in names:
        _utf8(name)
    return tuple((name, content(value)) for name, value in zip(names, values, strict=True))


def _time(found: Any) -> int | None:  # Any: a value of JSON
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not (NO_TIMESTAMP <= found <= INT64_MAX):
        raise ValueError(f"ts is not a number of milliseconds since 1970, or {NO_TIMESTAMP} for no time")
    return found


class BadLine(NamedTuple):
    """The line that ended the command, counted from 1, and what is wrong with it."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendReport(Report):
    """What was appended; `first_offset` is None if nothing was."""

    directory: str
    first_offset: int | None
    end_offset: int
    records_count: int
    bad_line: BadLine | None = None
    is_stopped: bool = False

    @property
    def status(self) -> Status:
        return Status.FINE if self.bad_line is None else Status.FINDINGS

    @property
    def verdict(self) -> str:
        where = f"{last_name(self.directory)}, which ends at offset {self.end_offset}"
        was = "was" if self.records_count == 1 else "were"
        done = f"{counted(self.records_count, 'record')} {was} appended to {where}."
        if self.bad_line is None:
            return f"Stopped: {done}" if self.is_stopped else done
        number, reason = self.bad_line
        return f"Line {number} is wrong: {sentence(reason)[:1].lower()}{sentence(reason)[1:]} {done}"

    def tables(self) -> list[Table]:
        return []

    def words(self) -> Sequence[str]:
        return ()

    def totals(self) -> dict[str, int]:
        return {"records": self.records_count, "bad_lines": int(self.bad_line is not None)}

    def to_document(self) -> dict[str, object]:
        return {
            "directory": self.directory,
            "first_offset": self.first_offset,
            "end_offset": self.end_offset,
            "bad_line": None if self.bad_line is None else self.bad_line._asdict(),
            "is_stopped": self.is_stopped,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Appending:
    """A request: append lines to the lone log in this directory."""

    directory: str
    parse: ParseLine = value_of_line
    create: bool = False
    codec: CodecName = "none"
    clock: Clock = system_clock
    disk: Disk = field(default_factory=Disk)

    def run(self, lines: LineInput, stop: GracefulStop | None = None) -> AppendReport:
        """Append all lines, or until `stop` is set.

        UsageError for a broker's partition: its replicas would not get the records.
        """
        directory = absolute_path(self.directory)
        if are_brokers(self.disk, [parent_path(directory)]):
            raise UsageError(
                f"{directory} is a partition of a broker, whose replicas would not get these records: append "
                "through the broker. This command is for logs outside a broker's directories."
            )
        with self._opened(directory) as log:
            return self._append(log, directory, lines, stop or GracefulStop())

    def _opened(self, directory: str) -> PartitionLog:
        try:
            if not self.create and is_partition_name(last_name(directory)):  # open_log reports other names
                self._check_log(directory)
            return open_log(directory, create=self.create, codec=self.codec, disk=self.disk, clock=self.clock)
        except InvalidNameError as error:
            raise UsageError(str(error)) from error

    def _check_log(self, directory: str) -> None:
        """UsageError unless there is a log: without --create none is created, not even in an empty folder."""
        status = self.disk.status(directory)
        if status is None:
            raise UsageError(f"{directory} does not exist: check the path, or create the log with --create.")
        if status.kind is EntryKind.DIRECTORY and not self.disk.list_sizes(directory, FileKind.LOG.value):
            raise UsageError(
                f"{directory} contains no log: check the path, or create one there with --create."
            )

    def _append(
        self, log: PartitionLog, directory: str, lines: LineInput, stop: GracefulStop
    ) -> AppendReport:
        first, count, bad = log.end_offset, 0, None
        for arrived in _small_at_first(_arriving(lines, stop)):
            done, bad = self._append_some(log, arrived, number=count + 1)
            count += done
            if bad is not None:
                break
        return AppendReport(
            directory=directory,
            first_offset=first if count else None,
            end_offset=log.end_offset,
            records_count=count,
            bad_line=bad,
            is_stopped=stop.is_set(),
        )

    def _append_some(
        self, log: PartitionLog, lines: Sequence[bytes], *, number: int
    ) -> tuple[int, BadLine | None]:
        """Append the lines before the first wrong one; returns their count, and the wrong one."""
        records: list[NewRecord] = []
        bad = None
        for line in lines:
            try:
                records.append(self.parse(line))
            except ValueError as error:
                bad = BadLine(number + len(records), str(error))
                break
        if not records:
            return 0, bad
        try:
            log.append_many(records)
        except _RECORD_REFUSALS:
            return self._append_one_by_one(log, records, number=number) or (len(records), bad)
        return len(records), bad

    def _append_one_by_one(
        self, log: PartitionLog, records: Sequence[NewRecord], *, number: int
    ) -> tuple[int, BadLine] | None:
        """Append the records before the first one that the log refuses; None if it refuses none."""
        for done, record in enumerate(records):
            try:
                log.append_many([record])
            except RecordTooLargeError as error:
                return done, BadLine(number + done, error.reason)
            except (InvalidTimestampError, RecordValidationError) as error:
                return done, BadLine(number + done, error.record_errors[0].reason)
        return None


def _small_at_first(arriving: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    """The same lines; those of the first `FIRST_SIZE` bytes are in lists without later ones."""
    left = FIRST_SIZE
    for lines in arriving:
        count = 0
        while left > 0 and count < len(lines):
            left -= len(lines[count]) + _RECORD_OVERHEAD
            count += 1
        yield from (part for part in (lines[:count], lines[count:]) if part)


def _arriving(lines: LineInput, stop: GracefulStop) -> Iterator[list[bytes]]:
    """The lines without their ends, as they arrive. After a stop, a last line without an end is left out."""
    rest: list[bytes] = []
    while _waits(lines, stop) and (piece := _read(lines)):
        whole, end, last = piece.rpartition(b"\n")
        if not end:
            rest.append(piece)
            continue
        yield b"".join([*rest, whole]).split(b"\n")
        rest = [last] if last else []
    if rest and not stop.is_set():
        yield [b"".join(rest)]


def _read(lines: LineInput) -> bytes:
    with Refusing("read", str(getattr(lines, "name", "the input"))):
        return lines.read1(READ_SIZE)


def _waits(lines: LineInput, stop: GracefulStop) -> bool:
    """Wait until something has arrived; False if `stop` is set instead."""
    if not stop.is_set():
        waiting = select.poll()
        waiting.register(stop, select.POLLIN)
        try:
            waiting.register(cast(Any, lines), select.POLLIN)  # Any: it need not be a file
        except (OSError, TypeError):  # it is in memory, and never waits
            return True
        waiting.poll()
    return not stop.is_set()
