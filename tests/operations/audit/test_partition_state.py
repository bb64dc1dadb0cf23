"""A partition during its audit, and sums over several."""

from __future__ import annotations

from pathlib import Path

from stratalog.errors import DiskError
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.audited_directory import look_at_directory
from stratalog.operations.audit.partition_state import PartitionState, topics_of, totals_of
from stratalog.operations.audit.partition_task import PartitionTask, look_at_partition
from stratalog.operations.audit.segment_task import AuditTask, audit_segment
from tests.fixtures.catalog import log_dirs, partitions


def state_of(name: str) -> PartitionState:
    (root,) = log_dirs("4.3.1", "clean")
    directory = look_at_directory(DiskReader(), str(root))
    topic, _, number = name.rpartition("-")
    task = PartitionTask(
        log_directory=str(root), name=name, topic_partition=TopicPartition(topic, int(number))
    )
    return PartitionState(directory, task)


def audited(name: str) -> PartitionState:
    state = state_of(name)
    state.facts = look_at_partition(DiskReader(), state.task)
    for listed in state.facts.segments:
        task = AuditTask(
            directory=state.task.path,
            topic=state.task.topic_partition.topic,
            base_offset=listed.base_offset,
            size=listed.size,
            next_base=None,
            was_closed=True,
            now_ms=2**62,
        )
        state.segments[listed.base_offset] = (listed.stamp, audit_segment(DiskReader(), task))
    return state


def test_sums_are_those_of_kafkas_batches() -> None:
    names = ("rolled-0", "codecs-0")
    expected = [
        batch
        for partition in partitions("4.3.1", "clean")
        if partition.name in names
        for batch in partition.batches()
    ]
    states = [audited(name) for name in names]

    totals = totals_of(1, states, 7)

    assert all(state.is_complete for state in states)
    assert (totals.batches, totals.bytes_read) == (len(expected), 7)
    assert totals.records == sum(len(batch["records"]) for batch in expected)
    assert totals.bytes == sum(batch["size"] for batch in expected)
    rows = topics_of(states)
    assert [row.topic for row in rows] == ["codecs", "rolled"]
    assert rows[0].codecs == tuple(sorted({batch["codec"] for batch in expected}))


def test_what_failed_is_a_finding_of_the_partition() -> None:
    state = state_of("rolled-0")

    state.fail("x.log", DiskError(Path("x.log"), "input/output error", 5))

    (finding,) = state.findings()
    assert (finding.kind.value, finding.partition, finding.file) == ("unreadable", "rolled-0", "x.log")
    assert not state.is_complete
