"""Our recovery of a case, and how Kafka loads the directory afterwards."""

from __future__ import annotations

from pathlib import Path

from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.run import recover_partition
from tests.kafka.log_oracle import Json, LogOracle
from tests.kafka.recovery_cases import SEGMENT_SUFFIXES, Case
from tests.kafka.recovery_compare import contents, kafka_opens


def we_recover(case: Case, now_ms: int) -> RecoveryPlan:
    disk = Disk()
    topic, _, partition = case.directory.name.rpartition("-")
    return recover_partition(
        disk,
        case.directory,
        topic_partition=TopicPartition(topic, int(partition)),
        config=LogConfig.of(case.config),
        recovery_point=case.recovery_point,
        log_start_offset=case.log_start_offset,
        now_ms=now_ms,
        quarantine=Quarantine(disk, case.directory.parent),
    )


def opens_as_stopped(log_oracle: LogOracle, case: Case, plan: RecoveryPlan, now_ms: int) -> Json:
    """Kafka loads the directory as after a clean stop, and changes no segment.

    Returns Kafka's marks of the log.
    """
    before = of_segments(case.directory)

    opened = kafka_opens(log_oracle, case, marks_of(plan), now_ms)

    assert opened.refusal is None, f"{case}: {opened.refusal}"
    assert (opened.marks["logStart"], opened.marks["logEnd"]) == (plan.log_start_offset, plan.log_end_offset)
    assert of_segments(case.directory) == before, str(case)
    return opened.marks


def of_segments(directory: Path) -> dict[str, object]:
    return {name: data for name, data in contents(directory).items() if name.endswith(SEGMENT_SUFFIXES)}


def marks_of(plan: RecoveryPlan) -> Json:
    return {"logStart": plan.log_start_offset, "logEnd": plan.log_end_offset}
