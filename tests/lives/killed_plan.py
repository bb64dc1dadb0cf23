"""What the programs that are killed work on: their topics and settings, and the plan of one life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.config.keys import ConfigValue
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.manager.manager import LogManager
from tests.lives.killing_disk import Trap
from tests.lives.known import Policy
from tests.waiting import PATIENCE_S

LEDGER, QUEUE, TRADES = "ledger", "queue", "trades"
RETENTION_SIZE = 16_384
POLICIES = {
    LEDGER: Policy(is_compacted=True),
    QUEUE: Policy(retention_size=RETENTION_SIZE),
    TRADES: Policy(is_compacted=True, retention_size=4 * RETENTION_SIZE),
}
SMALL: dict[str, ConfigValue] = {
    "internal.segment.bytes": 4096,
    "segment.index.bytes": 4096,
    "index.interval.bytes": 256,
    "file.delete.delay.ms": 5,
    "min.cleanable.dirty.ratio": 0.05,
    "delete.retention.ms": 0,
    "retention.ms": -1,
    "transaction.partition.verification.enable": "false",  # there is no coordinator to ask
}
TOPICS: dict[str, dict[str, ConfigValue]] = {
    LEDGER: {"cleanup.policy": "compact"},
    QUEUE: {"cleanup.policy": "delete", "retention.bytes": RETENTION_SIZE},
    TRADES: {"cleanup.policy": "compact,delete", "retention.bytes": 4 * RETENTION_SIZE},
}
OPEN, FAR = b"o", b"f"  # signals of a writer: its logs are open; it has come as far as its plan says
LONGEST_S = PATIENCE_S  # the longest life that nobody ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One life of a writer.

    Its parent gets a signal when the journal has `lines` lines: on a busy machine, time says little about
    progress. `has_moves`: logs are moved meanwhile. `is_last`: it only opens and closes.
    """

    number: int
    seed: int
    directories: Sequence[str]
    journal: str
    lines: int = 0
    trap: Trap | None = None
    has_moves: bool = False
    is_last: bool = False


def manager_of(plan: Plan, disk: Disk, scheduler: BackgroundScheduler) -> LogManager:
    """The log manager of a life, with all periodic work at very short intervals."""
    settings = ManagerConfig(
        log_retention_check_interval_ms=15,
        log_flush_offset_checkpoint_interval_ms=20,
        log_flush_start_offset_checkpoint_interval_ms=35,
        replica_high_watermark_checkpoint_interval_ms=50,
        log_initial_task_delay_ms=0,
        log_cleaner_backoff_ms=3,
        log_cleaner_dedupe_buffer_size=1 << 18,
    )
    log = LogConfig.of(SMALL)
    return LogManager(
        plan.directories,
        server=ServerConfig(settings, log, ()),
        topics=TopicConfigs(log, TOPICS),
        high_watermark_follows_end=True,
        disk=disk,
        scheduler=scheduler,
    )


def partition_of(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def log_of(manager: LogManager, topic: str) -> Log:
    log = manager.get_log(partition_of(topic))
    assert log is not None
    return log
