"""The state that a recovery would leave, shown by a dry run, against what the run leaves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.directory.recovery.rehearsal import RecoveryRehearsal, log_starts, rehearsing_recovery
from stratalog.files.names import TopicPartition
from tests.directory.recovery.recovering import (
    RECOVERY_POINTS,
    checkpoint,
    copy_of,
    damage,
    files_of,
    recover,
)

METADATA = "partition.metadata"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A killed broker's directory: a damaged log, no recovery points, an index and a topic's id missing."""
    directory = copy_of("killed", tmp_path / "damaged")
    (directory / RECOVERY_POINTS).unlink()
    damage(directory / "idempotent-0" / f"{0:020d}.log")
    (directory / "codecs-0" / f"{0:020d}.index").unlink()
    (directory / "headers-0" / METADATA).unlink()
    return directory


def shown(rehearsal: RecoveryRehearsal, partition: Path) -> dict[str, bytes]:
    found = {}
    for entry in rehearsal.disk.list_directory(partition):
        path = str(partition / entry.name)
        found[entry.name] = rehearsal.disk.read_at(path, rehearsal.disk.size(path), 0)
    return found


def test_each_partition_is_shown_byte_for_byte_as_the_run_leaves_it(damaged: Path, tmp_path: Path) -> None:
    before = files_of(damaged)
    done = Path(shutil.copytree(damaged, tmp_path / "done"))
    recover(done)

    with rehearsing_recovery() as rehearsal:
        report = recover(damaged, dry_run=True, on_plan=rehearsal.add)
        rehearsal.add_topic_ids(report)
        found = {path.name: shown(rehearsal, path) for path in damaged.glob("*-0")}

    assert rehearsal.rewritten == {}
    names = {name for name in found if not name.startswith("__cluster_metadata")}
    assert {name: found[name] for name in names} == {name: files_of(done / name) for name in names}
    assert files_of(damaged) == before


def test_a_partition_whose_segment_would_be_rewritten_is_named(damaged: Path) -> None:
    with rehearsing_recovery() as rehearsal:
        recover(damaged, dry_run=True, salvage=True, on_plan=rehearsal.add)

    assert rehearsal.rewritten == {str(damaged / "idempotent-0"): f"{0:020d}.log"}


def test_what_is_noted_on_the_way_is_gone_at_the_end(damaged: Path) -> None:
    with rehearsing_recovery() as rehearsal:
        recover(damaged, dry_run=True, on_plan=rehearsal.add)
        spool = Path(rehearsal.disk._spool)
        assert spool.is_dir()

    assert not spool.exists()


def test_logs_start_where_the_broker_s_checkpoint_says(damaged: Path) -> None:
    starts = checkpoint(damaged / "log-start-offset-checkpoint")

    found = log_starts(recover(damaged, dry_run=True))

    assert starts == {"trimmed-0": found[str(damaged)][TopicPartition("trimmed", 0)]}
