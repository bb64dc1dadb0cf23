"""Bytes as text or JSON, and the reason for each value that is neither."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.jobs.decoding.undecoded import Undecoded

NOT_UTF8 = "it is not UTF-8"
NOT_JSON = "it is not JSON"
TOO_DEEP = "it is JSON that is nested too deeply"


def decode_texts(
    column: pa.Array,
    decode: Callable[[bytes], str],
    *,
    start: int = 0,
    among: NDArray[np.bool_] | None = None,
) -> tuple[pa.Array, dict[int, str]]:
    """(the result of `decode` for each value, from byte `start` on; the texts of its ValueErrors, by row).

    Only rows in `among` that are not null are decoded.
    """
    texts: list[str | None] = [None] * len(column)
    reasons: dict[int, str] = {}
    for row, raw in enumerate(column.to_pylist()):
        if raw is None or (among is not None and not among[row]):
            continue
        try:
            texts[row] = decode(raw[start:])
        except ValueError as error:
            reasons[row] = str(error)
    return pa.array(texts, pa.string()), reasons


def decode_utf8(column: pa.Array) -> tuple[pa.Array, Undecoded]:
    """A column of bytes as text."""
    try:
        return column.cast(pa.string()), Undecoded.of(column, {})
    except pa.ArrowInvalid:  # one by one, to find the values that are not text
        texts, reasons = decode_texts(column, utf8_text)
        return texts, Undecoded.of(column, reasons)


def decode_json(column: pa.Array) -> tuple[pa.Array, Undecoded]:
    """A column of bytes as JSON text; whether it is JSON is checked."""
    texts, reasons = decode_texts(column, json_text)
    return texts, Undecoded.of(column, reasons)


def utf8_text(raw: bytes) -> str:
    """The text; ValueError if it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(NOT_UTF8) from None


def json_text(raw: bytes) -> str:
    """The text of JSON; ValueError if it is not JSON."""
    text = utf8_text(raw)
    try:
        # Python's parser differs from JSON: it accepts NaN, and refuses integers with very many digits.
        json.loads(text, parse_constant=_no_number, parse_int=str)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except ValueError:
        raise ValueError(NOT_JSON) from None
    return text


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
