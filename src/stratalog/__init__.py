"""Kafka's log storage layer in Python: read, check and write Kafka log directories without a broker.

    with stratalog.open_log("data/orders-0", create=True) as log:
        log.append(b"hello", key=b"greeting")

Importing this imports none of pyspark, numba, pyarrow and numpy; what needs them imports them when used.
docs/api.md has all of it, by example.
"""

import logging
from typing import TYPE_CHECKING

from stratalog.errors import (
    CorruptRecordError,
    LogDirLockedError,
    NeedsRecoveryError,
    OffsetOutOfRangeError,
    StratalogError,
)
from stratalog.version import __version__

if TYPE_CHECKING:
    from stratalog.directory.open_log import open_log
    from stratalog.log.api.consume import ConsumerRecord
    from stratalog.log.api.partition_log import PartitionLog
    from stratalog.log.new_records import NewRecord
    from stratalog.manager.manager import LogManager
    from stratalog.signals import graceful_stop

__all__ = [
    "ConsumerRecord",
    "CorruptRecordError",
    "LogDirLockedError",
    "LogManager",
    "NeedsRecoveryError",
    "NewRecord",
    "OffsetOutOfRangeError",
    "PartitionLog",
    "StratalogError",
    "__version__",
    "graceful_stop",
    "open_log",
]

_LAZY = {
    "ConsumerRecord": "stratalog.log.api.consume",
    "LogManager": "stratalog.manager.manager",
    "NewRecord": "stratalog.log.new_records",
    "PartitionLog": "stratalog.log.api.partition_log",
    "graceful_stop": "stratalog.signals",
    "open_log": "stratalog.directory.open_log",
}

logging.getLogger("stratalog").addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    """What is imported only when it is asked for, since it brings numpy and the compiled kernels."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'stratalog' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
