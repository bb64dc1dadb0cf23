"""`spark.readStream.format("stratalog")`: Kafka log directories as a stream, without a broker.

This module is thin: `jobs/reading` decides how far a trigger goes and what data loss is. Spark keeps one
reader, which plans, in a process next to the driver; the readers in the workers read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from stratalog.jobs.reading.options import ReadOptions
from stratalog.spark.source import (
    checked_columns,
    found_decodings,
    known_types,
    read_partition,
    task_partitions,
)
from stratalog.spark.telling import tell_stderr
from stratalog.spark.workers import prepare_worker

if TYPE_CHECKING:
    import pyarrow as pa

    from stratalog.jobs.reading.following import Follower
    from stratalog.jobs.reading.offsets import StreamOffset


class StratalogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Accepts and returns offsets as JSON; its follower reads the directories."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = ReadOptions.parse(options, streaming=True)
        self._columns = checked_columns(schema, known_types(self._options))
        self._nullable = [field.nullable for field in schema.fields]
        self._follower: Follower | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as the others)
        return self._following().initial().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._following().end_here()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Spark's Python API has no limit with both a maximum and a minimum, so `latestOffset` takes the
        # minimum from our options.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        # Trigger.Once asks for everything, regardless of the options.
        is_limited = not isinstance(limit, ReadAllAvailable)
        end = self._following().advance(
            _stream_offset(start),
            at_most=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            at_least=(self._options.min_offsets_per_trigger or 0) if is_limited else 0,
        )
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._following().latest().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        tasks = self._following().plan(_stream_offset(start), _stream_offset(end))
        # After the plan, as for a batch: by then every schema that the planned records need is registered.
        return task_partitions(tasks, decodings=found_decodings(self._options, tell_stderr))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._columns, self._nullable)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark's checkpoint has the stream's position, and the logs are not ours to change."""

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.close()

    def _following(self) -> Follower:
        if self._follower is None:
            prepare_worker()
            from stratalog.jobs.reading.following import Follower

            self._follower = Follower(self._options, on_omission=tell_stderr)
        return self._follower


def _stream_offset(parsed: dict[str, Any]) -> StreamOffset:
    from stratalog.jobs.reading.offsets import StreamOffset

    return StreamOffset.from_json(parsed)
