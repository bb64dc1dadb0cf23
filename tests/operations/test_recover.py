"""`recover`: what counts as a finding, and the verdict on whether the broker may be started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from stratalog.directory.clean_state import NOTE
from stratalog.directory.refusal import RefusalKind
from stratalog.files.disk import Disk
from stratalog.log.recovery.facts import FindingKind
from stratalog.operations.recover import PLANNED, RecoverOptions, RecoverReport, recover
from stratalog.operations.report import Status
from tests.directory.recovery.recovering import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    MARKER,
    NO_EPOCH,
    RECOVERY_POINTS,
    SERVER,
    copy_of,
    damage,
    marker,
)
from tests.directory.refused import REFUSED, with_second
from tests.fixtures import catalog
from tests.operations.recovering import both, run

TOPIC_ID = "rolled-0/partition.metadata"
FINE = "The broker can be started: nothing is lost."


def verdict_of(report: RecoverReport) -> str:
    """The sentence, without what says that it is a plan."""
    words = report.verdict.removeprefix(PLANNED)
    return f"{words[0].upper()}{words[1:]}"


def test_nothing_is_lost_of_a_killed_brokers_directory(killed: Path) -> None:
    plan, report = both(killed)

    for found in (plan, report):
        assert (found.may_start, found.has_findings) == (True, False)
    assert plan.verdict == f"{PLANNED}the broker can be started: nothing is lost."
    assert report.verdict == FINE


def test_files_that_wait_for_their_deletion_are_not_findings(killed: Path) -> None:
    (killed / "rolled-0" / "00000000000000000000.log.deleted").write_bytes(b"gone")

    for found in both(killed):
        assert not found.has_findings
        assert verdict_of(found) == FINE


@pytest.mark.parametrize(
    "name",
    [RECOVERY_POINTS, "cleaner-offset-checkpoint", "rolled-0/leader-epoch-checkpoint"],
)
def test_a_repaired_checkpoint_is_not_a_finding(killed: Path, name: str) -> None:
    (killed / name).write_bytes(bytes(8))

    for found in both(killed):
        assert (found.may_start, found.has_findings) == (True, False)


def lose(file: Path, how: str) -> None:
    if how == "lost":
        file.unlink()
    else:
        file.write_bytes({"zeroed": bytes(8), "without its number": b"0\n1\ntrimmed 0 x\n"}[how])


# The broker that wrote the fixture deleted the records of trimmed-0 before offset 17.
@pytest.mark.parametrize("how", ["zeroed", "without its number", "lost"])
@pytest.mark.parametrize("state", ["killed", "clean", "clean with --all"])
def test_deleted_records_were_visible_again_and_nothing_was_lost(
    tmp_path: Path, state: str, how: str
) -> None:
    data = copy_of(state.partition(" ")[0], tmp_path / "data")
    lose(data / LOG_STARTS, how)

    for found in both(data, scan_all=state.endswith("--all")):
        assert found.status is (Status.FAILED if (state, how) == ("clean", "zeroed") else Status.FINDINGS)
        assert "nothing is lost" not in found.verdict
        told = {
            partition.name: finding
            for directory in found.result.directories
            for partition in directory.partitions
            for finding in partition.findings
            if finding.kind is FindingKind.UNKNOWN_START
        }
        # The epochs of all other partitions begin with their first segment: nothing was deleted there.
        assert [*told] == ["trimmed-0"]
        assert "The log now starts at offset 0" in told["trimmed-0"].words
        assert "leader epochs begin at offset 17" in told["trimmed-0"].words
        assert "delete the records before offset 17 again" in told["trimmed-0"].consequence


def test_a_start_that_is_not_known_is_told_of_a_log_without_leader_epochs(killed: Path) -> None:
    (killed / LOG_STARTS).unlink()
    (killed / "rolled-0" / "leader-epoch-checkpoint").write_bytes(b"")

    for found in both(killed):
        (words,) = [
            finding.words
            for partition in found.result.directories[0].partitions
            if partition.name == "rolled-0"
            for finding in partition.findings
            if finding.kind is FindingKind.UNKNOWN_START
        ]
        assert "anywhere between that offset and its high watermark" in words


@pytest.mark.parametrize("how", ["zeroed", "without its number", "lost"])
def test_without_high_watermarks_nothing_was_lost_was_a_guess(killed: Path, how: str) -> None:
    """A power cut can take the end of a file without a trace: only the high watermark shows it."""
    lose(killed / HIGH_WATERMARKS, how)

    for found in both(killed, process_crash=True):
        assert (found.may_start, found.has_findings) == (True, True)
        (problem,) = found.result.directories[0].problems
        assert problem.name == HIGH_WATERMARKS
        assert "committed records may be missing" in problem.consequence
    assert marker(killed) == NO_EPOCH


def test_a_verdict_named_findings_that_were_in_no_table(killed: Path) -> None:
    (killed / NOTE).write_text('{"version": 0, "was_clean": true, "broker_epoch": -1, "has_cut": false}')

    for found in both(killed, process_crash=True):
        assert found.verdict.endswith("nothing is cut off, but read the note.")
        assert any("--process-crash" in words for words in found.words())


def test_a_garbled_checkpoint_of_a_clean_directory_keeps_the_broker_from_starting(clean: Path) -> None:
    (clean / LOG_STARTS).write_bytes(bytes(8))

    for found in both(clean):
        (refusal,) = found.refusals
        assert refusal.name == LOG_STARTS
        assert "recover --all" in refusal.remedy
    assert run(clean, scan_all=True).may_start


def test_what_is_cut_off_is_in_the_verdict(killed: Path) -> None:
    with (killed / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(bytes(8) + b"\0\0\1\0" + b"half")

    for found in both(killed):
        assert (found.may_start, found.has_findings) == (True, True)
        assert verdict_of(found) == (
            "The broker can be started: 16 bytes of its logs are cut off and kept in quarantine."
        )


def test_a_brokers_directory_without_meta_properties_exited_with_0(killed: Path) -> None:
    (killed / "meta.properties").unlink()

    for found in both(killed):
        assert not found.may_start
        assert verdict_of(found) == (
            "The broker must not be started yet: it refuses to start because of "
            f"{killed}/meta.properties; fix that, and run `stratalog recover` again."
        )
    # A broker that gets as far as loading deletes it; one that does not finds it when that is mended.
    assert (killed / MARKER).exists()


def test_a_sibling_without_meta_properties_is_noticed_though_it_is_not_named(clean: Path) -> None:
    other = with_second(clean)
    (other / "meta.properties").unlink()

    assert run(other).may_start
    assert not run(other, log_dirs=(str(clean), str(other))).may_start


def test_a_partition_in_two_directories_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    one, two = copy_of("killed", tmp_path / "one"), copy_of("killed", tmp_path / "two")

    report = run(one, two)

    assert {found.kind for found in report.refusals} == {
        RefusalKind.TWICE,
        RefusalKind.OTHER_NODE,
        RefusalKind.METADATA_PLACE,
    }
    assert all((directory / MARKER).exists() for directory in (one, two))


@pytest.mark.parametrize(
    "name", [name for name in REFUSED if "partition.metadata" in name and "folder" not in name]
)
def test_a_garbled_partition_metadata_passed_with_exit_0(killed: Path, name: str) -> None:
    change = REFUSED[name]
    good = (killed / change.name).read_bytes() if (killed / change.name).exists() else b""
    change.make(killed)

    plan, report = both(killed)

    is_ours = change.name == TOPIC_ID
    assert (plan.may_start, report.may_start) == (is_ours, is_ours)
    assert (plan.has_findings, report.has_findings) == (is_ours, is_ours)
    assert ((killed / change.name).read_bytes() == good) == is_ours


def test_the_garbled_bytes_of_partition_metadata_are_kept(killed: Path) -> None:
    (killed / TOPIC_ID).write_bytes(b"\xff\xfe\0noise")

    run(killed)

    kept = killed / "stratalog-quarantine-rolled-0-partition.metadata-0"
    assert kept.read_bytes() == b"\xff\xfe\0noise"


def test_a_garbled_partition_metadata_of_a_topic_that_the_cluster_does_not_know_is_left(killed: Path) -> None:
    (killed / "rolled-0").rename(killed / "unknown-0")
    (killed / "unknown-0" / "partition.metadata").write_bytes(b"")

    for found in both(killed):
        (refusal,) = found.refusals
        assert (refusal.kind, refusal.name) == (
            RefusalKind.PARTITION_METADATA,
            "unknown-0/partition.metadata",
        )
    assert (killed / "unknown-0" / "partition.metadata").read_bytes() == b""


@pytest.mark.parametrize("name", ["my topic-0", "a\nb-0", os.fsdecode(b"r\xff-0")], ids=ascii)
def test_a_folder_that_no_checkpoint_can_name_took_the_directory_offline(killed: Path, name: str) -> None:
    shutil.copytree(killed / "codecs-0", killed / name)
    (killed / name / "partition.metadata").unlink()

    planned, done = both(killed)

    assert (planned.status, done.status) == (Status.FINDINGS, Status.FINDINGS)
    assert "can be started" in verdict_of(done)
    again = run(killed, scan_all=True)
    assert "can be started" in verdict_of(again)
    checkpoint = (killed / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert len(checkpoint) == int(checkpoint[1]) + 2
    assert all(len(line.split(" ")) == 3 for line in checkpoint[2:])


@pytest.mark.parametrize("how", ["of another topic", "of no topic"])
def test_a_topic_id_that_contradicts_the_cluster_is_reported(killed: Path, how: str) -> None:
    other = (killed / "codecs-0" / "partition.metadata").read_bytes()
    data = other if how == "of another topic" else b"version: 0\ntopic_id: reGNe0_MHPkN7msm8w9sjg"
    (killed / TOPIC_ID).write_bytes(data)

    for found in both(killed):
        (problem,) = found.result.directories[0].problems
        assert problem.name == "rolled-0"
        assert ("belongs to codecs" in problem.words) == (how == "of another topic")
        # With the id of another topic, a broker serves nothing; with an unknown one, the folder is a stray.
        assert (found.may_start, found.has_findings) == (how == "of no topic", True)
    assert (killed / TOPIC_ID).read_bytes() == data


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "rolled-0/leader-epoch-checkpoint"])
def test_the_verdict_on_a_clean_directory_names_the_command_that_repairs_it(clean: Path, name: str) -> None:
    (clean / name).write_bytes(b"garbled")

    for found in both(clean):
        assert not found.may_start
        assert found.verdict.endswith("; run `stratalog recover --all`, which repairs that.")
    assert run(clean, scan_all=True).may_start


def test_a_directory_that_failed_is_in_the_verdict(killed: Path, tmp_path: Path) -> None:
    report = run(killed, tmp_path / "unmounted")

    assert not report.may_start
    assert f"{tmp_path}/unmounted was not recovered" in report.verdict
    two = run(killed, tmp_path / "unmounted", tmp_path / "other")
    assert f"{tmp_path}/unmounted, {tmp_path}/other were not recovered" in two.verdict


def test_a_directory_of_a_zookeeper_cluster_needs_no_node_id(tmp_path: Path) -> None:
    (source,) = catalog.log_dirs("2.8.2", "killed")

    assert run(Path(shutil.copytree(source, tmp_path / "data"))).may_start


class SmallDisk(Disk):
    """A disk with little room, part of which kept bytes take; `elsewhere` is another disk."""

    def __init__(self, free: int, elsewhere: Path | None = None) -> None:
        super().__init__()
        self._free = free
        self._elsewhere = elsewhere

    def free_size(self, path: object) -> int:
        taken = 0
        if self._elsewhere is not None:
            if str(path) != str(self._elsewhere):
                return 1 << 30
            taken = sum(file.stat().st_size for file in self._elsewhere.glob("stratalog-quarantine-*"))
        return self._free - taken

    def is_same_device(self, _path: object, _other: object) -> bool:
        return self._elsewhere is None


def tear(directory: Path, name: str, size: int) -> None:
    """A last batch that announces more bytes than there are."""
    log = max((directory / name).glob("*.log"))
    with log.open("ab") as file:
        file.write(bytes(8) + (1 << 20).to_bytes(4, "big") + b"x" * (size - 12))


@pytest.mark.parametrize(("free", "fits"), [(100_000, True), (99_999, False)])
def test_a_dry_run_did_not_predict_that_quarantine_will_not_fit(killed: Path, free: int, fits: bool) -> None:
    tear(killed, "rolled-0", 100_000)
    options = RecoverOptions(server=SERVER)

    plan = recover([str(killed)], replace(options, dry_run=True), disk=SmallDisk(free))
    report = recover([str(killed)], options, disk=SmallDisk(free))

    for found in (plan, report):
        assert found.may_start == fits
        error = found.result.directories[0].error
        assert error is None if fits else error is not None and "100000 bytes are to be kept" in error
    assert verdict_of(plan) == verdict_of(report)


@pytest.mark.parametrize(("free", "fits"), [(200, True), (199, False)])
def test_a_quarantine_on_another_disk_has_to_hold_all_cuts(
    killed: Path, tmp_path: Path, free: int, fits: bool
) -> None:
    for name in ("rolled-0", "codecs-0"):
        tear(killed, name, 100)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    options = RecoverOptions(server=SERVER, quarantine=str(elsewhere))

    for dry_run in (True, False):
        found = recover([str(killed)], replace(options, dry_run=dry_run), disk=SmallDisk(free, elsewhere))
        assert found.may_start == fits


def tear_end(data: Path) -> None:
    with (data / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(bytes(8) + b"\0\0\1\0" + b"half")


def zeros_at_end(data: Path) -> None:
    with (data / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(bytes(1 << 20))


def damage_first(data: Path) -> None:
    damage(data / "rolled-0" / "00000000000000000000.log")
    (data / RECOVERY_POINTS).unlink()  # so that the segments after the damage go too


def no_change(data: Path) -> None:
    pass


def known(report: RecoverReport) -> object:
    """What a program reads in the JSON about epochs and quarantine, and what decides the exit status."""
    document = report.to_document()
    directories = cast("list[dict[str, Any]]", document["directories"])
    return (
        report.status,
        document["notes"],
        [each["broker_epoch"] for each in directories],
        [
            (partition["partition"], cut["file"], cut["position"], cut["kept_as"])
            for each in directories
            for partition in each["partitions"]
            for cut in partition["cuts"]
        ],
    )


@pytest.mark.parametrize("change", [no_change, tear_end, zeros_at_end, damage_first])
@pytest.mark.parametrize("options", [{}, {"process_crash": True}, {"scan_all": True}, {"keeps_cuts": False}])
@pytest.mark.parametrize("state", ["killed", "clean"])
def test_the_json_of_a_dry_run_had_no_epoch_and_no_place_of_a_cut(
    tmp_path: Path, state: str, options: dict[str, object], change: Callable[[Path], None]
) -> None:
    data = copy_of(state, tmp_path / "data")
    if state == "killed" or options == {"scan_all": True}:
        change(data)

    plan, report = both(data, **options)

    assert known(plan) == known(report)
    assert all(found.broker_epoch is not None for found in plan.result.directories)
    assert all(cut.kept_as is not None for cut in plan.cuts) == (
        options != {"keeps_cuts": False} or not plan.cuts
    )


def test_a_dry_run_names_the_same_quarantine_as_the_run(killed: Path, tmp_path: Path) -> None:
    """Elsewhere, and in a place that has kept a cut of this name before."""
    elsewhere = tmp_path / "kept"
    elsewhere.mkdir()
    for _ in range(2):
        (killed / MARKER).unlink(missing_ok=True)
        tear_end(killed)
        with (killed / "rolled-0" / "00000000000000000088.log").open("ab") as file:
            file.write(os.urandom(8))

        plan, report = both(killed, quarantine=str(elsewhere))

        assert known(plan) == known(report)
    assert len({cut.kept_as for cut in (*plan.cuts, *report.cuts)}) == 1


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_nothing_was_lost_where_a_whole_partition_was_gone(state: str, tmp_path: Path) -> None:
    root = copy_of(state, tmp_path / "data")
    shutil.rmtree(root / "codecs-0")

    plan, report = both(root)

    for found in (plan, report):
        assert (found.may_start, found.status) == (True, Status.FINDINGS)
        assert verdict_of(found) == "The broker can be started: nothing is cut off, but read the findings."
