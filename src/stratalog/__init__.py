"""Kafka's log storage layer in Python: read, check and write Kafka log directories without a broker.

Importing this imports none of pyspark, numba, pyarrow and numpy; what needs them imports them when used.
"""

import logging

from stratalog.version import __version__

__all__ = ["__version__"]

logging.getLogger("stratalog").addHandler(logging.NullHandler())
