"""Keeps what Stratalog logs from standard error where a program has not set up logging.

Not in the package's own `__init__`: importing logging takes as long as Python takes to start, and most of
what that `__init__` is imported for logs nothing. The packages whose modules log call it.
"""

from __future__ import annotations

import logging
from functools import cache


@cache
def add_null_handler() -> None:
    """Give the logger of this package a handler that does nothing, once."""
    logging.getLogger("stratalog").addHandler(logging.NullHandler())
