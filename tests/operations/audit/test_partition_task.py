"""The small files of a partition, as a real broker left them."""

from __future__ import annotations

from pathlib import Path

from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.partition_task import PartitionFacts, PartitionTask, look_at_partition
from tests.manager.running import fixture_copy


def facts_of(root: Path, name: str) -> PartitionFacts:
    topic, _, number = name.rpartition("-")
    task = PartitionTask(
        log_directory=str(root), name=name, topic_partition=TopicPartition(topic, int(number))
    )
    return look_at_partition(DiskReader(), task)


def test_segments_epochs_and_snapshots_are_those_of_the_files(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    facts = facts_of(root, "idempotent-0")

    assert [(each.base_offset, each.size) for each in facts.segments] == [(0, 1588), (40, 693)]
    lines = (root / "idempotent-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    assert facts.epochs is not None
    assert [f"{epoch} {start}" for epoch, start in facts.epochs] == lines
    assert [offset for offset, _ in facts.snapshots] == [40, 52, 62]
    assert facts.spots == ()


def test_the_files_of_a_metadata_log_are_known(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    assert facts_of(root, "__cluster_metadata-0").spots == ()


def test_what_is_not_a_segments_is_named(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    for name in ("notes.txt", "leader-epoch-checkpoint.tmp", f"{7:020d}.log.deleted", f"{9:020d}.index.swap"):
        (root / "rolled-0" / name).write_bytes(b"x")
    (root / "rolled-0" / "folder").mkdir()

    found = {spot.file: spot.kind.value for spot in facts_of(root, "rolled-0").spots}

    assert found == {
        "folder": "foreign-file",
        "notes.txt": "foreign-file",
        "leader-epoch-checkpoint.tmp": "temporary-file",
        f"{7:020d}.log.deleted": "waiting-file",
        f"{9:020d}.index.swap": "temporary-file",
    }
