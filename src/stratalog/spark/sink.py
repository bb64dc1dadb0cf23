"""The `stratalog` sink: writes DataFrames to the segments of a Kafka log directory, without a broker.

    df.write.format("stratalog").mode("append").option("topic", "orders").save("/var/lib/kafka")

This module is thin: `jobs/writing` stages and commits a write. Spark builds a writer in one process, writes
with copies of it in the workers and commits with another copy. So everything that these copies share is in
the writer, and the results of tasks are in their messages.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from stratalog.errors import StratalogError, UsageError
from stratalog.jobs.writing.options import SINK_COLUMNS, WriteOptions
from stratalog.spark.workers import prepare_worker, require_version
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from stratalog.jobs.writing.commit import Committer
    from stratalog.jobs.writing.stage import Staged
    from stratalog.jobs.writing.target import WriteTarget

SINK_TYPES = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
# Columns of a read that a write ignores, so that rows can be written as they were read.
IGNORED_COLUMNS = frozenset({"offset", "timestampType"})
_QUERY_ID = "sql.streaming.queryId"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """What a task has staged for a write, and, for a stream, its query."""

    write: str
    staged: tuple[Staged, ...]
    query: str | None = None


class _Write:
    """What the writers for batches and for streams have in common."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        parsed = WriteOptions.parse(options)
        check_sink_schema(schema, parsed)
        if overwrite:
            raise UsageError("a log can only be appended to: write with mode('append').")
        self._version = __version__
        self._prefix, self._write = write_names(options)
        self._target = _target_of(parsed)

    def _begin(self) -> None:
        prepare_worker()
        from stratalog.files.disk import Disk
        from stratalog.jobs.writing.stage import begin_write

        begin_write(Disk(require_owner=True), self._target.directory, self._write)

    def _stage(self, batches: Iterator[pa.RecordBatch]) -> StagedMessage:
        require_version(self._version)
        prepare_worker()
        from pyspark import TaskContext

        from stratalog.clock import system_clock
        from stratalog.files.disk import Disk
        from stratalog.jobs.writing.stage import stage_rows

        task = TaskContext.get()
        assert task is not None, "Spark calls this in its tasks"
        staged = stage_rows(
            Disk(require_owner=True),
            self._target,
            batches,
            write=self._write,
            attempt=str(task.taskAttemptId()),
            turn=task.partitionId(),
            clock=system_clock,
        )
        return StagedMessage(self._write, tuple(staged), task.getLocalProperty(_QUERY_ID))

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch: int | None) -> None:
        own = [message for message in messages if isinstance(message, StagedMessage)]
        committer = self._committer(own)
        staged = [segment for message in own for segment in message.staged]
        query = None
        if batch is not None:
            query = next((message.query for message in own if message.query), None)
        if staged or query is not None:
            report = committer.commit(staged, query=query, batch=-1 if batch is None else batch)
            if report.warning is not None:
                # Spark gives a sink no channel to the user, and its Python process has no logging.
                print(f"stratalog: {report.warning}", file=sys.stderr, flush=True)
        try:
            committer.discard()
        except StratalogError as error:
            # The rows are already in their logs: after an error, the caller would write them a second time.
            logger.warning(
                "the write is committed, but some of its staged files could not be deleted: %s", error
            )

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        own = [message for message in messages if isinstance(message, StagedMessage)]
        self._committer(own).discard()

    def _committer(self, messages: Sequence[StagedMessage]) -> Committer:
        prepare_worker()
        from stratalog.clock import system_clock
        from stratalog.files.disk import Disk
        from stratalog.jobs.writing.commit import Committer

        # In a stream, the writer that commits a batch is not the one that the tasks had.
        write = messages[0].write if messages else self._write
        disk = Disk(require_owner=True)
        return Committer(disk, self._target, write, stream=self._prefix, clock=system_clock)


class StratalogWriter(_Write, DataSourceArrowWriter):
    """Writes a DataFrame, all of it or nothing."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        # The driver begins the write, once: a task that starts after an abort must not begin it again.
        self._begin()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class StratalogStreamWriter(_Write, DataSourceStreamArrowWriter):
    """Writes each batch of a stream once, however often Spark tries: the journal has the last batch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        # Spark makes several writers for a batch. The next batch deletes files that a late task leaves.
        self._begin()
        return self._stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self._abort(messages)


def write_names(options: Mapping[str, str]) -> tuple[str, str]:
    """(the common prefix of a stream's writes, empty if the stream is unknown; a new name for a write).

    A stream is known by its checkpoint, so a stream that was killed deletes its old staged files when it runs
    again.
    """
    checkpoint = {name.lower(): value for name, value in options.items()}.get("checkpointlocation")
    unique = uuid.uuid4().hex
    if checkpoint is None:
        return "", unique
    prefix = hashlib.sha256(checkpoint.encode()).hexdigest()[:16]
    return prefix, prefix + unique[:16]


def check_sink_schema(schema: StructType, options: WriteOptions) -> None:
    """UsageError if records cannot be made from these columns."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, found in types.items():
        if name in IGNORED_COLUMNS:
            continue
        if name not in SINK_TYPES:
            raise UsageError(
                f"a record has no column {name}: select some of {', '.join(SINK_COLUMNS)}; only value is "
                "required."
            )
        if found not in SINK_TYPES[name]:
            raise UsageError(f"the column {name} is {found}: cast it to {' or '.join(SINK_TYPES[name])}.")
    if "value" not in types:
        raise UsageError("there is no column value: every record needs one, and it may be null.")
    if options.topic is None and "topic" not in types:
        raise UsageError("no topic is given: give the option topic, or a column topic.")


def _target_of(options: WriteOptions) -> WriteTarget:
    prepare_worker()
    from stratalog.files.reading import DiskReader
    from stratalog.jobs.writing.target import find_target

    return find_target(DiskReader(), options)
