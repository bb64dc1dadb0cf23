"""What a scan reads: a schema, and batches of some of its columns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.reading.catalog import find_partitions
from stratalog.jobs.reading.narrowing import Narrowing
from stratalog.jobs.reading.omissions import OnOmission
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_stepwise
from stratalog.jobs.reading.read import Pickers, ReadMemory, read_task
from stratalog.jobs.reading.split import ReadTask
from stratalog.scanning.in_order import in_order

if TYPE_CHECKING:
    from stratalog.jobs.decoding.finding import Decodings

# Small, so that threads that read ahead need little memory; a task of this size takes some milliseconds.
TASK_SIZE = 8 << 20
# For a single thread, which reads nothing ahead. In a task of 8 MiB, opening the file and checking the
# split's hint would take a tenth of the time.
TASK_SIZE_ALONE = 32 << 20
# For each thread: bytes of batches that were not taken yet.
BUDGET = 32 << 20


class Source(Protocol):
    """Something that can be scanned, any number of times."""

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        ...

    def batches(
        self, columns: Sequence[str], *, narrowing: Narrowing, on_omission: OnOmission
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows, as they are now, with these columns. Without columns, batches have only a number of rows.

        `narrowing` may leave out rows that cannot match a query; other rows that do not match may remain.
        """
        ...


ReadsTask = Callable[[ReadTask, Pickers | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, kw_only=True)
class RecordSource:
    """The records of topics."""

    options: ReadOptions
    threads: int
    disk: DiskReader = field(default_factory=DiskReader)

    @classmethod
    def of(cls, options: ReadOptions, threads: int) -> RecordSource:
        """The source of a read; UsageError if a path, topic, partition or schema does not exist."""
        source = cls(options=options, threads=threads, disk=reader_for(*options.paths))
        find_partitions(source.disk, options)
        source.decodings  # noqa: B018 (raises if a schema is missing)
        return source

    @cached_property
    def decodings(self) -> Decodings:
        """How keys and values are decoded."""
        from stratalog.jobs.decoding.finding import find_decodings

        return find_decodings(self.options, disk=self.disk)

    @property
    def schema(self) -> pa.Schema:
        from stratalog.jobs.decoding.columns import known_columns

        return pa.schema(list(known_columns(self.decodings).items()))

    def reading(self, columns: Sequence[str], on_omission: OnOmission) -> ReadsTask:
        """A function that reads tasks with these columns, in any thread."""
        from stratalog.jobs.decoding.columns import DecodedColumns
        from stratalog.jobs.decoding.finding import find_decodings, pinned

        # Schemas may have been added since the source was created. The reader schema stays the same.
        named = pinned(self.options, self.decodings)
        decodings = find_decodings(named, disk=self.disk, on_omission=on_omission)
        decoded = DecodedColumns(names=tuple(columns), decodings=decodings, on_omission=on_omission)
        memory = memory_of_threads()

        def read(task: ReadTask, pickers: Pickers | None) -> Iterator[pa.RecordBatch]:
            found = read_task(
                task,
                decoded.to_read,
                disk=self.disk,
                on_omission=on_omission,
                pickers=pickers,
                memory=memory(),
            )
            return decoded.batches(found)

        return read

    def batches(
        self, columns: Sequence[str], *, narrowing: Narrowing, on_omission: OnOmission
    ) -> Generator[pa.RecordBatch, None, None]:
        read_with = self.reading(columns, on_omission)

        def read(task: ReadTask) -> Generator[pa.RecordBatch, None, None]:
            yield from read_with(task, None)

        task_size = TASK_SIZE if self.threads > 1 else TASK_SIZE_ALONE
        tasks = plan_stepwise(
            self.options, task_size=task_size, disk=self.disk, on_omission=on_omission, narrowing=narrowing
        )
        return in_order(tasks, read, threads=self.threads, size_of=batch_size, budget=BUDGET * self.threads)


def memory_of_threads() -> Callable[[], ReadMemory]:
    """Returns a function that gives each thread a buffer of its own, the same one each time."""
    local = threading.local()

    def memory() -> ReadMemory:
        if not hasattr(local, "memory"):
            local.memory = ReadMemory()
        found: ReadMemory = local.memory
        return found

    return memory


def batch_size(batch: pa.RecordBatch) -> int:
    """The memory of a batch, for the budget."""
    return max(int(batch.nbytes), 1)
