"""Sizes on the command line: 400MB, 1.5 GB, 64KiB, or plain bytes."""

from __future__ import annotations

import re

import click

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_size(_context: click.Context, _option: click.Parameter, text: str) -> int:
    """Parse a size as people write it, into bytes; the callback of an option."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text.lower())
    if not match:
        raise click.BadParameter(f"{text!r} is not a size: write 400MB, 1.5GB, 64KiB or a number of bytes.")
    return int(float(match[1]) * {**_UNITS, **_BINARY_UNITS}[match[2] or ""])
