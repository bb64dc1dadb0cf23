"""The columns of a read whose keys and values are decoded, and how batches become them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from stratalog.errors import UsageError
from stratalog.jobs.decoding.asked import DECODED
from stratalog.jobs.decoding.decoding import Decoding
from stratalog.jobs.decoding.finding import Decodings
from stratalog.jobs.reading.omissions import Omission, OmissionKind, OnOmission
from stratalog.records.arrays import TYPES

PLACE = ("topic", "partition", "offset")


def known_columns(decodings: Decodings) -> dict[str, pa.DataType]:
    """All columns that a read can have, with their types."""
    known: dict[str, pa.DataType] = {}
    for name, kind in TYPES.items():
        known |= dict(getattr(decodings, name).fields(name)) if name in DECODED else {name: kind}
    return known


@dataclass(frozen=True, kw_only=True)
class DecodedColumns:
    """The wanted columns in their order; each comes from the records or from their decoding.

    `on_omission` is called for keys and values that could not be decoded.
    """

    names: tuple[str, ...]
    decodings: Decodings = field(default_factory=lambda: Decodings(Decoding(), Decoding()))
    on_omission: OnOmission | None = None

    def __post_init__(self) -> None:
        known = known_columns(self.decodings)
        unknown = [name for name in self.names if name not in known]
        if unknown:
            raise UsageError(f"there is no column {', '.join(unknown)}; the columns are {', '.join(known)}.")

    @cached_property
    def schema(self) -> pa.Schema:
        known = known_columns(self.decodings)
        return pa.schema([(name, known[name]) for name in self.names])

    @cached_property
    def to_read(self) -> tuple[str, ...]:
        """The columns to read from the log, from which the wanted ones are made."""
        sources = self._sources()
        places = () if self.on_omission is None or sources.keys().isdisjoint(self.names) else PLACE
        return tuple(dict.fromkeys([*(sources.get(name, name) for name in self.names), *places]))

    @property
    def undecoded(self) -> list[str]:
        """The columns with the bytes of what could not be decoded, even if these are not wanted."""
        return [self._fields(name)[-2][0] for name in DECODED if not self._decoding(name).is_binary]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns, made from a batch that has the columns `to_read` and perhaps others."""
        made: dict[str, pa.Array] = {}
        sources = self._sources()
        for name in dict.fromkeys(sources[name] for name in self.names if name in sources):
            arrays = self._decoding(name).decode(batch.column(name))
            made |= dict(zip((each for each, _ in self._fields(name)), arrays, strict=True))
            self._report(name, batch, arrays[-1])
        arrays = [made[name] if name in made else batch.column(name) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The wanted columns, made from batches that have the columns `to_read`."""
        is_plain = self._sources().keys().isdisjoint(self.names)
        return iter(batches) if is_plain else map(self.rows, batches)

    def _report(self, column: str, batch: pa.RecordBatch, reasons: pa.Array) -> None:
        """Report what could not be decoded: for each partition and reason, how many and where."""
        if self.on_omission is None or reasons.null_count == len(reasons):
            return
        names = [*PLACE, "why"]
        rows = pa.Table.from_arrays([*(batch.column(name) for name in PLACE), reasons], names=names)
        by = rows.filter(reasons.is_valid()).group_by(["topic", "partition", "why"], use_threads=False)
        for found in by.aggregate([("offset", each) for each in ("min", "max", "count")]).to_pylist():
            self.on_omission(
                Omission(
                    topic=found["topic"],
                    partition=found["partition"],
                    kind=OmissionKind.UNDECODED,
                    first_offset=found["offset_min"],
                    end_offset=found["offset_max"] + 1,
                    why=found["why"],
                    column=column,
                    count=found["offset_count"],
                )
            )

    def _decoding(self, name: str) -> Decoding:
        found: Decoding = getattr(self.decodings, name)
        return found

    def _fields(self, name: str) -> list[tuple[str, pa.DataType]]:
        return self._decoding(name).fields(name)

    def _sources(self) -> dict[str, str]:
        """For each column that is made by decoding, the column of bytes that it is made from."""
        return {
            made: name
            for name in DECODED
            if not self._decoding(name).is_binary
            for made, _ in self._fields(name)
        }
