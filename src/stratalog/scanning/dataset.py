"""A scan as a dataset of pyarrow: DuckDB then says which columns a query needs, and which rows.

DuckDB asks a dataset for a scanner with the columns and filters of the query, and trusts it to apply them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from stratalog.errors import StratalogError
from stratalog.jobs.reading.omissions import OnOmission
from stratalog.scanning.arrow_predicates import fields_of, from_arrow
from stratalog.scanning.predicates import narrowing_by
from stratalog.scanning.sources import Source

OnError = Callable[[StratalogError], object]


class ScanDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Some columns of a source; `on_omission` is called for whatever a read leaves out.

    An error is raised into the library that reads, which may keep only its text; so `on_error` gets it too.
    """

    def __init__(
        self, source: Source, columns: Sequence[str], on_omission: OnOmission, on_error: OnError
    ) -> None:
        self._source, self._tell = source, (on_omission, on_error)
        self._schema = pa.schema([source.schema.field(name) for name in columns])

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,  # sizes of batches and the like, which are hints
    ) -> FilteredScan:
        return FilteredScan(self._source, self._schema, columns, filter, *self._tell)


class FilteredScan:
    """The rows of a source that match a filter, with some columns; in the form of pyarrow's scanners."""

    def __init__(
        self,
        source: Source,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        filter: pc.Expression | None,
        on_omission: OnOmission,
        on_error: OnError,
    ) -> None:
        self._source, self._filter = source, filter
        self._on_omission, self._on_error = on_omission, on_error
        self._columns = schema.names if columns is None else list(columns)
        needed = {*self._columns, *fields_of(filter, schema.names)}
        self._needed = [name for name in schema.names if name in needed]
        self.projected_schema = pa.schema([schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        found = self._source.batches(
            self._needed, narrowing=narrowing_by(from_arrow(self._filter)), on_omission=self._on_omission
        )
        try:
            with closing(found) as batches:
                for batch in batches:
                    rows = batch if self._filter is None else batch.filter(self._filter)
                    if rows.num_rows:
                        yield rows.select(self._columns)
        except StratalogError as error:
            self._on_error(error)
            raise
