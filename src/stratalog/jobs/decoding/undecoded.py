"""The bytes of keys or values that could not be decoded, and the reasons, in columns of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa


class Undecoded(NamedTuple):
    """The bytes of each value that could not be decoded, and why; null for all others."""

    raw: pa.Array
    reasons: pa.Array

    @classmethod
    def of(cls, column: pa.Array, reasons: Mapping[int, str]) -> Undecoded:
        """The rows of a column of bytes that have a reason."""
        if not reasons:
            return cls(pa.nulls(len(column), pa.binary()), pa.nulls(len(column), pa.string()))
        import pyarrow.compute as pc  # 0.05 s, and mostly not needed

        texts = pa.array([reasons.get(row) for row in range(len(column))], pa.string())
        return cls(pc.if_else(texts.is_valid(), column, pa.scalar(None, pa.binary())), texts)
