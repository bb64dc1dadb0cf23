"""`stratalog.scan`: the records of log directories as an Arrow stream, for any library that reads one.

    orders = stratalog.scan("/var/lib/kafka", topics="orders")
    pl.DataFrame(orders)
    duckdb.sql("SELECT partition, count(*) FROM orders GROUP BY partition")

A scan is lazy: the call only checks its arguments, and each use plans and reads again.
"""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing

import pyarrow as pa

from stratalog.errors import UsageError
from stratalog.files.entries import Path
from stratalog.jobs.decoding.asked import EncodingName
from stratalog.jobs.reading.arguments import Time, whole_number
from stratalog.jobs.reading.narrowing import Narrowing, everything
from stratalog.jobs.reading.omissions import Omission, joined_up, warn_of
from stratalog.limits import INT64_MAX
from stratalog.log.api.consume import IsolationName
from stratalog.records.columns import column_names
from stratalog.scanning.asking import Offsets, OnDamage, check_flag, read_options
from stratalog.scanning.in_order import cores
from stratalog.scanning.latest import LatestSource
from stratalog.scanning.sources import RecordSource, Source
from stratalog.scanning.words import python_words

MOST_THREADS = 1024


def scan(
    paths: Path | Sequence[Path],
    *,
    topics: str | Iterable[str] | None = None,
    columns: Sequence[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    offsets: Offsets | None = None,
    isolation: IsolationName = "read_uncommitted",
    on_corruption: OnDamage = "fail",
    fail_on_data_loss: bool = True,
    include_control: bool = False,
    latest: bool = False,
    tombstones: bool = False,
    key: EncodingName = "binary",
    value: EncodingName = "binary",
    key_schema: Path | None = None,
    value_schema: Path | None = None,
    key_reader: Path | None = None,
    value_reader: Path | None = None,
    threads: int | None = None,
) -> Scan:
    """The records of log directories, in the order of partitions and offsets.

    A path is a log directory, a partition's directory or a pattern. Without `topics` all topics are read
    except Kafka's internal ones. `since` and `until` bound each partition as Kafka finds offsets by time:
    from its first record at or after `since`, up to its first record at or after `until`. With
    `offsets` only the partitions that it names are read. Only `columns` are decoded. Reading takes no lock
    and changes nothing; a broker may be running. It uses all cores, or `threads`.

    With `latest` the scan has only the newest record of each key, as after a compaction; a deleted key has no
    record, or with `tombstones` the record that deleted it.

    `key` and `value` say how their bytes are encoded. `key_schema` and `value_schema` say where the schemas
    are, `key_reader` and `value_reader` to which schema all keys or values are converted (docs/schemas.md).

    If something does not exist, the UsageError lists what does.
    """
    with python_words():
        for name, flag in (("latest", latest), ("tombstones", tombstones)):
            check_flag(name, flag)
        if threads is not None and whole_number("threads", threads, least=1) > MOST_THREADS:
            raise UsageError(f"threads is {threads}: it must be at most {MOST_THREADS}.")
        options = read_options(
            paths,
            topics=topics,
            since=since,
            until=until,
            offsets=offsets,
            isolation=isolation,
            on_corruption=on_corruption,
            fail_on_data_loss=fail_on_data_loss,
            include_control=include_control,
            keyEncoding=key,
            valueEncoding=value,
            keySchema=key_schema,
            valueSchema=value_schema,
            keyReader=key_reader,
            valueReader=value_reader,
        )
        records = RecordSource.of(options, threads or cores())
        source: Source = records
        if latest:
            if include_control:
                raise UsageError("latest and include_control contradict each other: markers have no key.")
            source = LatestSource(records=records, tombstones=tombstones)
        elif tombstones:
            raise UsageError("tombstones is for latest=True: any other scan returns every record.")
        return Scan(source, options.columns if columns is None else columns)


class Scan:
    """Rows that can be read as an Arrow stream, any number of times; each read sees the files as they are
    then.

    After a read, `omissions` lists what it left out because its arguments allow that (damage, lost offsets),
    and which keys and values could not be decoded. A read that left something out also ends with an
    `OmissionWarning`.
    """

    def __init__(self, source: Source, columns: Sequence[str], *, narrowing: Narrowing = everything) -> None:
        self.schema = _selected(source.schema, columns)
        self.omissions: tuple[Omission, ...] = ()
        self.source = source
        self._narrowing = narrowing

    @property
    def columns(self) -> list[str]:
        names: list[str] = self.schema.names
        return names

    def narrowed(self, columns: Sequence[str], narrowing: Narrowing) -> Scan:
        """A scan of these columns that may leave out rows that cannot match a query."""
        return Scan(self.source, columns, narrowing=narrowing)

    def to_reader(self) -> pa.RecordBatchReader:
        """A reader of the rows, which begins when its first batch is requested."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows in batches of some thousand. Close the generator to stop early."""
        return self._read(self.columns)

    def to_table(self) -> pa.Table:
        """All rows in memory."""
        with closing(self.to_batches()) as batches:
            return pa.Table.from_batches(batches, schema=self.schema)

    def count(self) -> int:
        """How many rows there are; no column is decoded."""
        with closing(self._read(())) as batches:
            return sum(batch.num_rows for batch in batches)

    def head(self, rows: int = 10) -> pa.Table:
        """The first rows; reads little more than these."""
        found: list[pa.RecordBatch] = []
        left = min(whole_number("rows", rows), INT64_MAX)
        with closing(self.to_batches()) as batches:
            while left > 0 and (batch := next(batches, None)) is not None:
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
        return pa.Table.from_batches(found, schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow C stream; libraries call this."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<stratalog.Scan of {', '.join(self.columns)}>"

    def _read(self, columns: Sequence[str]) -> Generator[pa.RecordBatch, None, None]:
        found: list[Omission] = []
        source = self.source.batches(columns, narrowing=self._narrowing, on_omission=found.append)
        try:
            with python_words(), closing(source) as batches:
                yield from batches
        except GeneratorExit:  # the caller stops early; some of its rows may be missing
            self._report(found)
            raise
        except BaseException:
            self.omissions = tuple(joined_up(found))
            raise
        self._report(found)

    def _report(self, found: Sequence[Omission]) -> None:
        self.omissions = tuple(joined_up(found))
        warn_of(self.omissions)


def _selected(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """These columns of a schema; UsageError for a name that is unknown, or there twice."""
    columns = column_names(columns)
    for number, name in enumerate(columns):
        if name not in schema.names:
            near = difflib.get_close_matches(name, schema.names, n=1)
            hint = f"did you mean {near[0]}? The columns" if near else "the columns"
            raise UsageError(f"there is no column {name}: {hint} are {', '.join(schema.names)}.")
        if name in columns[:number]:
            raise UsageError(f"columns has {name} twice.")
    return pa.schema([schema.field(name) for name in columns])
