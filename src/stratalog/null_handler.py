"""Keeps log messages of Stratalog off standard error, in programs that have not set up logging.

This is not in the package's own `__init__`, because importing logging takes as long as starting Python, and
most programs that import the package log nothing. Each package whose modules write log messages calls
`add_null_handler`.
"""

from __future__ import annotations

import logging
from functools import cache


@cache
def add_null_handler() -> None:
    """Give the logger of this package a handler that does nothing, once."""
    logging.getLogger("stratalog").addHandler(logging.NullHandler())
