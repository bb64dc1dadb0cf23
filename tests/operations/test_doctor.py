"""Whether a broker can be started, against what a real one does (tests/kafka/test_startup_refusals.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import format_directories
from stratalog.errors import NotALogDirectoryError
from stratalog.files.lock import DirectoryLock
from stratalog.operations.doctor import Checkup, DoctorReport
from tests.directory.lone import lone
from tests.directory.refused import ACCEPTED, REFUSED
from tests.manager.running import contents, fixture_copy

# A broker starts there, and sets the partition aside.
STRAY = (
    "partition.metadata missing",
    "partition.metadata of an unknown topic",
    "a partition without anything",
)


def checked(*directories: Path) -> DoctorReport:
    return Checkup(directories=[str(directory) for directory in directories]).run()


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_broker_refuses_is_refused_here(name: str, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    REFUSED[name].make(root)
    before = contents(root)

    report = checked(root)

    assert (report.may_start, report.status) == (False, 3)
    assert all(refusal.remedy for refusal in report.refusals)
    assert "must not be started yet" in report.verdict
    assert contents(root) == before


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_a_broker_takes_is_no_finding(name: str, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    ACCEPTED[name](root)

    report = checked(root)

    assert report.may_start
    assert report.status == (1 if name in STRAY else 0)


def test_a_clean_directory_has_nothing_to_read_again(tmp_path: Path) -> None:
    report = checked(fixture_copy("clean", tmp_path / "data"))

    assert report.verdict == "The broker can be started."
    assert report.totals()["bytes_to_read_again"] == 0
    assert report.states[0].partitions_count == 12


def test_what_is_read_again_are_the_segments_from_the_recovery_point_on(tmp_path: Path) -> None:
    root = fixture_copy("killed", tmp_path / "data")
    for path in root.glob("*-checkpoint"):
        path.unlink()
    everything = sum(log.stat().st_size for log in root.glob("[!_]*-[0-9]/*.log"))
    everything += sum(log.stat().st_size for log in root.glob("__[!c]*/*.log"))
    everything += sum(log.stat().st_size for log in root.glob("__consumer_offsets-0/*.log"))

    report = checked(root)

    assert report.states[0].unflushed_size == everything
    assert "was not shut down cleanly" in report.verdict
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nrolled 0 50\n")
    later = sum(log.stat().st_size for log in (root / "rolled-0").glob("*.log") if int(log.stem) < 40)
    assert checked(root).states[0].unflushed_size == everything - later


def test_a_directory_that_is_in_use_is_said_to_be(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    with DirectoryLock(root):
        report = checked(root)

    assert report.states[0].is_in_use
    assert report.verdict == f"All is well. A broker or another program is using {root} now."


def test_what_is_not_a_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirectoryError):
        checked(tmp_path)


def test_a_directory_that_no_broker_has_used_was_said_to_be_startable(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a")
    report = checked(tmp_path)
    assert (report.may_start, report.status) == (False, 3)
    assert report.refusals[0].remedy.startswith("Run `stratalog format`")

    format_directories([tmp_path])

    assert checked(tmp_path).status == 0


def test_a_partition_that_the_cluster_lacks_was_set_aside_without_a_word(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (root / "orders-0").mkdir()

    report = checked(root)

    assert [(stray.path, stray.reason) for stray in report.strays] == [
        (str(root / "orders-0"), "its topic's id is not known")
    ]
    assert "It does not serve 1 partition that its cluster lacks." in report.verdict
    assert report.totals()["strays"] == 1
