"""Kafka's log storage layer in Python: read, check and write Kafka log directories without a broker.

    with stratalog.open_log("data/orders-0", create=True) as log:
        log.append(b"hello", key=b"greeting")

Importing this package does not import pyspark, numba, pyarrow or numpy: names that need them are imported on
first use. docs/api.md describes the whole API by example.
"""

from stratalog.version import __version__

TYPE_CHECKING = False  # as in `typing`, which would be imported for this alone
if TYPE_CHECKING:
    from stratalog.config import LogConfig, read_server_properties
    from stratalog.directory.formatting.choices import FormatOptions
    from stratalog.directory.formatting.format import format_directories
    from stratalog.directory.open_log import open_log
    from stratalog.engine.threads import ThreadEngine
    from stratalog.errors import (
        CorruptRecordError,
        LogDirLockedError,
        NeedsRecoveryError,
        OffsetOutOfRangeError,
        StratalogError,
    )
    from stratalog.files.disk import Disk
    from stratalog.files.names import TopicPartition
    from stratalog.jobs.reading.omissions import Omission, OmissionWarning
    from stratalog.log.api.consumer_records import ConsumerRecord
    from stratalog.log.api.partition_log import PartitionLog
    from stratalog.log.new_records import NewRecord
    from stratalog.manager.manager import LogManager
    from stratalog.operations.audit.audit import audit
    from stratalog.operations.compact import compact
    from stratalog.operations.erase.erasure import erase
    from stratalog.operations.estimate import estimate
    from stratalog.operations.recover import RecoverOptions, recover
    from stratalog.records.build import BatchOptions, Record, build_batch, build_batches
    from stratalog.records.columns import read_columns
    from stratalog.records.compression import Codec
    from stratalog.records.reader import read_batches
    from stratalog.scanning.scan import Scan, scan
    from stratalog.signals import graceful_stop

__all__ = [
    "BatchOptions",
    "Codec",
    "ConsumerRecord",
    "CorruptRecordError",
    "Disk",
    "FormatOptions",
    "LogConfig",
    "LogDirLockedError",
    "LogManager",
    "NeedsRecoveryError",
    "NewRecord",
    "OffsetOutOfRangeError",
    "Omission",
    "OmissionWarning",
    "PartitionLog",
    "Record",
    "RecoverOptions",
    "Scan",
    "StratalogError",
    "ThreadEngine",
    "TopicPartition",
    "__version__",
    "audit",
    "build_batch",
    "build_batches",
    "compact",
    "erase",
    "estimate",
    "format_directories",
    "graceful_stop",
    "open_log",
    "read_batches",
    "read_columns",
    "read_server_properties",
    "recover",
    "scan",
]

_LAZY = {
    "BatchOptions": "stratalog.records.build",
    "Codec": "stratalog.records.compression",
    "ConsumerRecord": "stratalog.log.api.consumer_records",
    "CorruptRecordError": "stratalog.errors",
    "Disk": "stratalog.files.disk",
    "FormatOptions": "stratalog.directory.formatting.choices",
    "LogConfig": "stratalog.config",
    "LogDirLockedError": "stratalog.errors",
    "LogManager": "stratalog.manager.manager",
    "NeedsRecoveryError": "stratalog.errors",
    "NewRecord": "stratalog.log.new_records",
    "OffsetOutOfRangeError": "stratalog.errors",
    "Omission": "stratalog.jobs.reading.omissions",
    "OmissionWarning": "stratalog.jobs.reading.omissions",
    "PartitionLog": "stratalog.log.api.partition_log",
    "Record": "stratalog.records.build",
    "RecoverOptions": "stratalog.operations.recover",
    "Scan": "stratalog.scanning.scan",
    "StratalogError": "stratalog.errors",
    "ThreadEngine": "stratalog.engine.threads",
    "TopicPartition": "stratalog.files.names",
    "audit": "stratalog.operations.audit.audit",
    "build_batch": "stratalog.records.build",
    "build_batches": "stratalog.records.build",
    "compact": "stratalog.operations.compact",
    "erase": "stratalog.operations.erase.erasure",
    "estimate": "stratalog.operations.estimate",
    "format_directories": "stratalog.directory.formatting.format",
    "graceful_stop": "stratalog.signals",
    "open_log": "stratalog.directory.open_log",
    "read_batches": "stratalog.records.reader",
    "read_columns": "stratalog.records.columns",
    "read_server_properties": "stratalog.config",
    "recover": "stratalog.operations.recover",
    "scan": "stratalog.scanning.scan",
}


def __getattr__(name: str) -> object:
    """Imports a name on first use: most names bring numpy and the compiled kernels with them."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'stratalog' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
