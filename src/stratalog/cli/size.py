"""Sizes on the command line: 400MB, 1.5 GB, 64KiB, or plain bytes."""

from __future__ import annotations

import re

import click

from stratalog.limits import INT64_MAX

_MOST_DIGITS = 100
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_size(_context: click.Context, _option: click.Parameter, text: str) -> int:
    """Parse a size as people write it, into bytes; the callback of an option."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    if not match:
        raise click.BadParameter(f"{text!r} is not a size: write 400MB, 1.5GB, 64KiB or a number of bytes.")
    # Integers, because a float has only 53 bits.
    whole, _, fraction = match[1].partition(".")
    size = 0
    if len(match[1]) <= _MOST_DIGITS:
        size = int(whole + fraction) * {**_UNITS, **_BINARY_UNITS}[match[2] or ""] // 10 ** len(fraction)
    if len(match[1]) > _MOST_DIGITS or size > INT64_MAX:
        raise click.BadParameter(f"{text!r} is more than a file can have: write at most {INT64_MAX}.")
    return size
