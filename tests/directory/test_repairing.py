"""Partitions of a directory that was shut down cleanly, and that are not as a clean close leaves them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.repairing import finish_replacements, is_unfinished, plan_repair, repair_partition
from stratalog.errors import NeedsRecoveryError
from stratalog.files.disk import Disk
from tests.directory.recovery.recovering import MARKER, damage, files_of
from tests.directory.sessions import session_of

# As in the settings of its broker, and of the topic in the cluster's metadata.
CONFIG = LogConfig.of(
    {"segment.index.bytes": 4096, "index.interval.bytes": 512, "internal.segment.bytes": 1500}
)
NAME = "rolled-0"
FIRST, LAST = f"{0:020d}", f"{72:020d}"


@pytest.fixture
def directory(clean: Path) -> Iterator[LogDirectory]:
    with session_of(clean) as session:
        yield session.directories[0]


def repair(directory: LogDirectory, *, may_cut: bool = True) -> None:
    repair_partition(Disk(), system_clock, directory, NAME, CONFIG, may_cut=may_cut)


def lose_a_record(clean: Path) -> None:
    """Damage the last segment, which a start reads and cuts, as its index is missing."""
    damage(clean / NAME / f"{LAST}.log")
    (clean / NAME / f"{LAST}.index").unlink()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{FIRST}.log.cleaned", True),
        (f"{FIRST}.index.swap", True),
        (f"{FIRST}.log.deleted", False),
        ("notes.swap", False),
        ("notes.log.swap", False),
    ],
)
def test_only_files_of_a_replacement_are_unfinished(clean: Path, name: str, expected: bool) -> None:
    (clean / NAME / name).touch()

    assert is_unfinished(Disk(), str(clean), NAME) is expected


def test_nothing_is_unfinished_in_what_a_broker_closed(clean: Path) -> None:
    assert not any(is_unfinished(Disk(), str(clean), path.name) for path in clean.glob("*-0"))
    assert not is_unfinished(Disk(), str(clean), "gone-0")


def test_a_cleaning_that_was_cut_short_is_undone(clean: Path, directory: LogDirectory) -> None:
    before = files_of(clean / NAME)
    del before[f"{60:020d}.snapshot"]  # of the end of an earlier run: each load removes it, Kafka's too
    (clean / NAME / f"{FIRST}.log.cleaned").write_bytes(b"half of it")

    assert finish_replacements(Disk(), system_clock, directory, NAME, CONFIG)

    assert files_of(clean / NAME) == before
    assert not finish_replacements(Disk(), system_clock, directory, NAME, CONFIG)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_the_broker_s_own_again(clean: Path, directory: LogDirectory, suffix: str) -> None:
    before = files_of(clean / NAME)
    (clean / NAME / f"{FIRST}{suffix}").unlink()

    repair(directory)

    assert files_of(clean / NAME)[f"{FIRST}{suffix}"] == before[f"{FIRST}{suffix}"]
    assert not (clean / MARKER).exists()  # until the session puts it back


def test_a_partition_that_would_be_cut_is_refused_and_left(clean: Path, directory: LogDirectory) -> None:
    lose_a_record(clean)
    before = files_of(clean)

    with pytest.raises(NeedsRecoveryError, match=f"{LAST}.log must be cut off.*recover --all {clean}"):
        repair(directory, may_cut=False)
    with pytest.raises(NeedsRecoveryError, match="must be cut off"):
        plan_repair(Disk(), system_clock, str(clean), NAME, CONFIG)

    assert files_of(clean) == before


def test_a_cut_that_is_asked_for_costs_the_epoch(clean: Path) -> None:
    lose_a_record(clean)

    with session_of(clean) as session:
        (directory,) = session.directories
        repair(directory)
        session.put_back(directory)

    assert json.loads((clean / MARKER).read_text()) == {"version": 0, "brokerEpoch": -1}


def test_a_repair_that_finds_a_log_missing_kept_the_epoch(clean: Path) -> None:
    (clean / NAME / f"{FIRST}.log").unlink()

    with session_of(clean) as session:
        (directory,) = session.directories
        repair(directory)
        session.put_back(directory)

    assert json.loads((clean / MARKER).read_text()) == {"version": 0, "brokerEpoch": -1}


def test_damage_in_a_segment_that_counts_as_flushed_is_left(clean: Path, directory: LogDirectory) -> None:
    damage(clean / NAME / f"{FIRST}.log")
    before = (clean / NAME / f"{FIRST}.log").read_bytes()

    repair(directory, may_cut=False)

    assert (clean / NAME / f"{FIRST}.log").read_bytes() == before


def test_a_plan_says_what_the_repair_does_and_changes_nothing(clean: Path, directory: LogDirectory) -> None:
    (clean / NAME / f"{FIRST}.index").unlink()
    before = files_of(clean)

    plan = plan_repair(Disk(), system_clock, str(clean), NAME, CONFIG)

    assert files_of(clean) == before
    assert plan.changes_anything
    repair(directory)
    assert not plan_repair(Disk(), system_clock, str(clean), NAME, CONFIG).changes_anything
