"""Log directories as LazyFrames of Polars, which read only the columns and records that a query may need.

    from stratalog.polars import scan

    scan("/var/lib/kafka", topics="orders").filter(pl.col("offset") > 1000).select("value").collect()

Predicates on topic, partition, offset and timestamp leave out partitions, segments and bytes before they are
read. The whole predicate is then applied to the rows that were read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import ParamSpec

from stratalog.errors import MissingDependencyError
from stratalog.installing import install_command
from stratalog.scanning import scan as scanning
from stratalog.scanning.polars_predicates import from_polars, without_dynamic
from stratalog.scanning.predicates import narrowing_by
from stratalog.scanning.scan import Scan

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError as error:
    raise MissingDependencyError(
        f"this needs Polars, which is not installed: {install_command('polars')}"
    ) from error

__all__ = ["lazy", "scan"]

_Arguments = ParamSpec("_Arguments")


def lazy(scan: Scan) -> pl.LazyFrame:
    """A scan as a LazyFrame. Each `collect` reads again."""
    empty = pl.from_arrow(scan.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        asked = scan.columns if columns is None else columns
        predicate = without_dynamic(predicate)
        needed = set(asked) | set([] if predicate is None else predicate.meta.root_names())
        # Polars passes both rows and predicate only for `head(rows).filter(predicate)`: the head is first.
        useful = predicate if rows is None else None
        narrowed = scan.narrowed(
            [name for name in scan.columns if name in needed], narrowing_by(from_polars(useful))
        )
        left = rows
        with closing(narrowed.to_batches()) as batches:
            for batch in batches:
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                if left is not None:
                    frame = frame.head(left)
                    left -= len(frame)
                yield (frame if predicate is None else frame.filter(predicate)).select(asked)
                if left is not None and left <= 0:
                    return

    return register_io_source(read, schema=empty.schema)


def _lazily(make: Callable[_Arguments, Scan]) -> Callable[_Arguments, pl.LazyFrame]:
    @functools.wraps(make)
    def frame(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> pl.LazyFrame:
        return lazy(make(*args, **kwargs))

    return frame


scan = _lazily(scanning.scan)
