"""`cat`: the records of topics as lines of bytes, read and formatted on all cores, in order.

Each thread turns the records of its tasks into lines, mostly straight from the decoded rows. To search, to
decode or to write JSON, it reads Arrow columns, drops the records that were not requested, and turns the rest
into lines; the caller only writes them. Partitions come one after the other, each in the order of its
offsets. With --follow, it prints the records that exist, and then new ones as they arrive, until it is
stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.decoding.asked import Encoding, decoded_columns
from stratalog.jobs.reading.omissions import Omission
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_stepwise
from stratalog.jobs.reading.read import LINE, read_task
from stratalog.jobs.reading.split import ReadTask
from stratalog.questions.choosing import COMMAND_WORDS, by_kind
from stratalog.questions.lines import Style, bytes_of, escaped_rows, printed
from stratalog.scanning.in_order import cores, in_order
from stratalog.scanning.sources import BUDGET, TASK_SIZE, RecordSource, batch_size, memory_of_threads
from stratalog.scanning.words import python_words

if TYPE_CHECKING:
    from stratalog.jobs.decoding.finding import Decodings

BETWEEN_LOOKS_S = 0.2
_ReadsBatches = Callable[[ReadTask], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which records to print: those with one of the keys, and with the pattern in them, if these are given.

    The pattern is a regular expression of RE2, and is searched for in keys and in values.
    """

    keys: tuple[bytes, ...] = ()
    pattern: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.pattern is not None:
            import pyarrow.compute as pc

            try:
                pc.match_substring_regex(pa.array([b""], pa.binary()), self.pattern)
            except pa.ArrowInvalid as error:
                raise UsageError(f"--grep {self.pattern} is not a regular expression: {error}.") from None
            except UnicodeEncodeError:  # bytes of the command line that are not text
                raise UsageError(
                    f"--grep {self.pattern!a} is not UTF-8: write such a byte as \\xff."
                ) from None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return ("key", "value") if self.pattern is not None else ("key",) if self.keys else ()

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are to be printed."""
        if not self.columns:
            return batch
        import pyarrow.compute as pc

        if self.keys:
            batch = batch.filter(pc.is_in(printed(batch, "key"), pa.array(self.keys, pa.binary())))
        if self.pattern is not None and batch.num_rows:
            found = [
                pc.fill_null(pc.match_substring_regex(printed(batch, name), self.pattern), False)
                for name in self.columns
            ]
            batch = batch.filter(pc.or_(*found))
        return batch


class _Lines(NamedTuple):
    """Lines, and which of them show bytes as \\xNN; None if none does."""

    texts: pa.Array
    escaped: NDArray[np.bool_] | None

    def first(self, count: int) -> _Lines:
        return _Lines(self.texts.slice(0, count), None if self.escaped is None else self.escaped[:count])

    @property
    def size(self) -> int:
        return batch_size(self.texts)


@dataclass
class Printout:
    """Records as lines. After `pieces`, `omissions` says what was left out, or could not be decoded.

    With `in_bulk`, one pass over the decoded rows makes the lines where possible; they are the same without.
    `escaped_count` is the number of records printed so far whose bytes JSON could not hold as they are.
    """

    options: ReadOptions
    style: Style
    wish: Wish = field(default_factory=Wish)
    follows: bool = False
    in_bulk: bool = True
    threads: int = field(default_factory=cores)
    wait: Callable[[float], None] = time.sleep
    omissions: list[Omission] = field(default_factory=list)
    escaped_count: int = 0

    def pieces(self) -> Generator[memoryview, None, None]:
        """The lines, many at a time. Close the generator to stop early."""
        left = self.wish.limit
        if left == 0:
            return
        with python_words(COMMAND_WORDS), closing(self._lines()) as found:
            for lines in found:
                shown = lines if left is None else lines.first(left)
                if shown.escaped is not None:
                    self.escaped_count += int(shown.escaped.sum())
                yield bytes_of(shown.texts)
                if left is not None:
                    left -= len(shown.texts)
                    if left <= 0:
                        return

    def _lines(self) -> Generator[_Lines, None, None]:
        disk = reader_for(*self.options.paths)
        parts = [_Part(self, disk, options, topic) for topic, options in by_kind(disk, self.options)]
        if not self.follows:
            for part in parts:
                yield from part.all_lines()
            return
        followers = [part.new_lines() for part in parts]
        try:
            while True:
                has_new = False
                for follower in followers:
                    while (lines := next(follower)) is not None:
                        has_new = True
                        yield lines
                if not has_new:
                    self.wait(BETWEEN_LOOKS_S)
        finally:
            for follower in followers:
                follower.close()


class _Part:
    """The lines of ordinary topics, or of one internal topic."""

    def __init__(self, whole: Printout, disk: DiskReader, options: ReadOptions, topic: str | None) -> None:
        self._whole, self._disk, self._options = whole, disk, options
        self._columns = tuple(dict.fromkeys((*whole.style.columns, *whole.wish.columns))) or ("offset",)
        self._style, self._has_lines = whole.style, False
        decoded_as = None if whole.style.in_base64 else topic
        self._escapes = whole.style.format is None and not whole.style.in_base64 and topic is None
        self._read = self._ordinary() if decoded_as is None else self._internal(decoded_as)

    def all_lines(self) -> Generator[_Lines, None, None]:
        """The lines of all records that exist now."""
        tasks = plan_stepwise(
            self._options, task_size=TASK_SIZE, disk=self._disk, on_omission=self._whole.omissions.append
        )
        return self._in_order(tasks)

    def new_lines(self) -> Generator[_Lines | None, None, None]:
        """The lines of all records, then of new ones; yields None whenever there are no more for now."""
        from stratalog.jobs.reading.following import Follower

        follower = Follower(self._options, disk=self._disk, on_omission=self._whole.omissions.append)
        try:
            place = follower.initial()
            while True:
                end = follower.advance(place)
                if end != place:
                    yield from self._in_order(iter(follower.plan(place, end)))
                place = end
                yield None
        finally:
            follower.close()

    def _in_order(self, tasks: Iterator[ReadTask]) -> Generator[_Lines, None, None]:
        threads = self._whole.threads
        budget = BUDGET * threads
        return in_order(
            tasks, self._of_task, threads=threads, size_of=lambda lines: lines.size, budget=budget
        )

    def _of_task(self, task: ReadTask) -> Generator[_Lines, None, None]:
        for batch in self._read(task):
            rows = self._whole.wish.of(batch)
            if rows.num_rows:
                texts = rows.column(LINE) if self._has_lines else self._style.lines(rows)
                yield _Lines(texts, escaped_rows(rows) if self._escapes else None)

    def _ordinary(self) -> _ReadsBatches:
        if self._makes_lines():
            self._has_lines = True
            return self._reading(())
        source = RecordSource.of(self._options, self._whole.threads)
        self._style = replace(self._style, json_parts=_json_parts(source.decodings))
        asked = {"key": self._options.key.encoding, "value": self._options.value.encoding}
        raw = [  # the bytes of what could not be decoded
            decoded_columns(name, encoding)[-2]
            for name, encoding in asked.items()
            if encoding is not Encoding.BINARY and name in self._columns
        ]
        read = source.reading((*self._columns, *raw), self._whole.omissions.append)
        return lambda task: read(task, None)

    def _internal(self, topic: str) -> _ReadsBatches:
        from stratalog.questions.internals import columns_for, with_messages

        self._style = replace(self._style, json_parts=frozenset({"key", "value"}))
        read = self._reading(columns_for(self._columns))
        return lambda task: with_messages(topic, read(task), self._columns)

    def _makes_lines(self) -> bool:
        """Whether lines can be made straight from the rows: nothing here needs Arrow columns."""
        encodings = {"key": self._options.key.encoding, "value": self._options.value.encoding}
        return (
            self._whole.in_bulk
            and not self._whole.wish.columns
            and all(encodings[name] is Encoding.BINARY for name in {*self._columns} & {*encodings})
            and self._style.maker(TopicPartition("", 0)) is not None
        )

    def _reading(self, columns: Sequence[str]) -> _ReadsBatches:
        memory, lines = memory_of_threads(), self._style.maker if self._has_lines else None
        return lambda task: read_task(
            task,
            columns,
            disk=self._disk,
            on_omission=self._whole.omissions.append,
            memory=memory(),
            lines=lines,
        )


def _json_parts(decodings: Decodings) -> frozenset[str]:
    """Which of key and value are decoded to text that is JSON."""
    from stratalog.jobs.decoding.store import JSON

    found = set()
    for name, decoding in decodings._asdict().items():
        is_json_schema = decoding.reader is not None and decoding.reader.kind == JSON
        if decoding.encoding is Encoding.JSON or (decoding.encoding is Encoding.CONFLUENT and is_json_schema):
            found.add(name)
    return frozenset(found)
