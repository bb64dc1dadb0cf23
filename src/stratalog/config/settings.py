"""The settings of a log and of log directories: names, defaults and ranges of Kafka 4.3.1.

Kafka: LogConfig, ServerLogConfigs, CleanerConfig, ServerTopicConfigSynonyms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from stratalog.config.keys import HOUR_MS, MINUTE_MS, ConfigValue, check_fields, parse_all, setting, values_of
from stratalog.errors import ConfigError
from stratalog.limits import INT64_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one log: its topic's, and the broker's for producers and transactions."""

    segment_bytes: int = setting(1 << 30, "int", "log.segment.bytes", low=1 << 20)
    # If set, it replaces segment.bytes, and may be as small as a test needs.
    internal_segment_bytes: int | None = setting(None, "int")
    segment_ms: int = setting(168 * HOUR_MS, "long", "log.roll.ms", ("log.roll.hours", HOUR_MS), low=1)
    segment_jitter_ms: int = setting(
        0, "long", "log.roll.jitter.ms", ("log.roll.jitter.hours", HOUR_MS), low=0
    )
    segment_index_bytes: int = setting(10 << 20, "int", "log.index.size.max.bytes", low=4)
    index_interval_bytes: int = setting(4096, "int", "log.index.interval.bytes", low=0)
    flush_messages: int = setting(INT64_MAX, "long", "log.flush.interval.messages", low=1)
    flush_ms: int = setting(
        INT64_MAX, "long", "log.flush.interval.ms", "log.flush.scheduler.interval.ms", low=0
    )
    retention_bytes: int = setting(-1, "long", "log.retention.bytes")
    retention_ms: int = setting(
        168 * HOUR_MS,
        "long",
        "log.retention.ms",
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
        low=-1,
    )
    file_delete_delay_ms: int = setting(60_000, "long", "log.segment.delete.delay.ms", low=0)
    cleanup_policy: frozenset[str] = setting(
        frozenset({"delete"}), "list", "log.cleanup.policy", choices=("compact", "delete")
    )
    delete_retention_ms: int = setting(24 * HOUR_MS, "long", "log.cleaner.delete.retention.ms", low=0)
    min_cleanable_dirty_ratio: float = setting(
        0.5, "double", "log.cleaner.min.cleanable.ratio", low=0, high=1
    )
    min_compaction_lag_ms: int = setting(0, "long", "log.cleaner.min.compaction.lag.ms", low=0)
    max_compaction_lag_ms: int = setting(INT64_MAX, "long", "log.cleaner.max.compaction.lag.ms", low=1)
    max_message_bytes: int = setting((1 << 20) + 12, "int", "message.max.bytes", low=0)
    message_timestamp_type: str = setting(
        "CreateTime", "string", "log.message.timestamp.type", choices=("CreateTime", "LogAppendTime")
    )
    message_timestamp_before_max_ms: int = setting(
        INT64_MAX, "long", "log.message.timestamp.before.max.ms", low=0
    )
    message_timestamp_after_max_ms: int = setting(
        HOUR_MS, "long", "log.message.timestamp.after.max.ms", low=0
    )
    compression_type: str = setting(
        "producer",
        "string",
        "compression.type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    )
    compression_gzip_level: int = setting(-1, "int", "compression.gzip.level", low=1, high=9, also=(-1,))
    compression_lz4_level: int = setting(9, "int", "compression.lz4.level", low=1, high=17)
    compression_zstd_level: int = setting(3, "int", "compression.zstd.level", low=-131072, high=22)
    preallocate: bool = setting(False, "boolean", "log.preallocate")
    remote_storage_enable: bool = setting(False, "boolean")
    remote_log_copy_disable: bool = setting(False, "boolean")
    remote_log_delete_on_disable: bool = setting(False, "boolean")
    local_retention_ms: int = setting(-2, "long", "log.local.retention.ms", low=-2)
    local_retention_bytes: int = setting(-2, "long", "log.local.retention.bytes", low=-2)
    # A topic may have these, but nothing that is stored depends on them.
    min_insync_replicas: int = setting(1, "int", "min.insync.replicas", low=1)
    unclean_leader_election_enable: bool = setting(False, "boolean", "unclean.leader.election.enable")
    leader_replication_throttled_replicas: tuple[str, ...] = setting((), "list")
    follower_replication_throttled_replicas: tuple[str, ...] = setting((), "list")
    # Settings of the broker, for all its logs.
    producer_id_expiration_ms: int = setting(24 * HOUR_MS, "int", "producer.id.expiration.ms", low=1)
    transaction_max_timeout_ms: int = setting(15 * MINUTE_MS, "int", "transaction.max.timeout.ms", low=1)
    transaction_partition_verification_enable: bool = setting(
        True, "boolean", "transaction.partition.verification.enable"
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                "min.compaction.lag.ms",
                self.min_compaction_lag_ms,
                f"it must be at most max.compaction.lag.ms, which is {self.max_compaction_lag_ms}",
            )

    @classmethod
    def of(cls, settings: Mapping[str, ConfigValue]) -> Self:
        """The configuration with these settings under Kafka's names, and Kafka's defaults for the others."""
        return cls(**parse_all(cls, settings))

    def with_overrides(self, settings: Mapping[str, ConfigValue]) -> Self:
        """A copy with some settings replaced, by Kafka's names: a topic's settings override its broker's."""
        return type(self)(**{**values_of(self), **parse_all(type(self), settings)})

    @property
    def segment_size(self) -> int:
        """How large a segment may get, in bytes."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def initial_file_size(self) -> int:
        """The size of a new .log file."""
        return self.segment_size if self.preallocate else 0

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """How old a segment may get before it is rolled, without jitter.

        A compacted log rolls in time for max.compaction.lag.ms, because the active segment is never cleaned.
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfig:
    """The settings of a broker's log directories and of the work on them."""

    log_dirs: tuple[str, ...] = setting(("/tmp/kafka-logs",), "list", "log.dirs", "log.dir")
    metadata_log_dir: str = setting("", "string", "metadata.log.dir")
    cordoned_log_dirs: tuple[str, ...] = setting((), "list", "cordoned.log.dirs")
    num_recovery_threads_per_data_dir: int = setting(2, "int", "num.recovery.threads.per.data.dir", low=1)
    log_retention_check_interval_ms: int = setting(
        5 * MINUTE_MS, "long", "log.retention.check.interval.ms", low=1
    )
    log_flush_scheduler_interval_ms: int = setting(INT64_MAX, "long", "log.flush.scheduler.interval.ms")
    log_flush_offset_checkpoint_interval_ms: int = setting(
        MINUTE_MS, "int", "log.flush.offset.checkpoint.interval.ms", low=0
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        MINUTE_MS, "int", "log.flush.start.offset.checkpoint.interval.ms", low=0
    )
    log_initial_task_delay_ms: int = setting(30_000, "long", "log.initial.task.delay.ms", low=0)
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5_000, "long", "replica.high.watermark.checkpoint.interval.ms"
    )
    producer_id_expiration_check_interval_ms: int = setting(
        10 * MINUTE_MS, "int", "producer.id.expiration.check.interval.ms", low=1
    )
    log_cleaner_enable: bool = setting(True, "boolean", "log.cleaner.enable")
    log_cleaner_threads: int = setting(1, "int", "log.cleaner.threads", low=0)
    log_cleaner_dedupe_buffer_size: int = setting(128 << 20, "long", "log.cleaner.dedupe.buffer.size")
    log_cleaner_io_buffer_size: int = setting(512 << 10, "int", "log.cleaner.io.buffer.size", low=0)
    log_cleaner_io_buffer_load_factor: float = setting(0.9, "double", "log.cleaner.io.buffer.load.factor")
    log_cleaner_io_max_bytes_per_second: float = setting(
        1.7976931348623157e308, "double", "log.cleaner.io.max.bytes.per.second"
    )
    log_cleaner_backoff_ms: int = setting(15_000, "long", "log.cleaner.backoff.ms", low=0)
    background_threads: int = setting(10, "int", "background.threads", low=1)

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.log_dirs or not all(self.log_dirs):
            raise ConfigError("log.dirs", ",".join(self.log_dirs), "every element must be a path")

    @classmethod
    def of(cls, settings: Mapping[str, ConfigValue]) -> Self:
        """The configuration with these settings under Kafka's names, and Kafka's defaults for the others."""
        return cls(**parse_all(cls, settings))
