"""The epoch that a recovery writes to clean-shutdown files, and when it must not write one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from stratalog.directory.clean_state import NOTE
from stratalog.directory.recovery.result import RecoveryReport
from stratalog.directory.write_journal import JOURNAL, Journal, PendingWrite, format_journal
from stratalog.files.disk import Disk
from stratalog.log.recovery.facts import Finding, FindingKind
from tests.directory.recovery.recovering import (
    EPOCH_OF_CLEAN,
    EPOCH_OF_KILLED,
    HIGH_WATERMARKS,
    MARKER,
    NO_EPOCH,
    RECOVERY_POINTS,
    Killed,
    MortalDisk,
    copy_of,
    damage,
    ends_by_kafka,
    marker,
    recover,
    recover_one,
)

SAYS_NOTHING = {"version": 0}  # Kafka's reader finds no epoch in it: tests/directory/test_clean_shutdown.py


def let_length_reach_past_the_end(killed: Path) -> None:
    """That of the second batch in a log's last segment."""
    log = killed / "idempotent-0" / "00000000000000000040.log"
    data = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 8] ^= 0x10  # of a length of four bytes the highest
    log.write_bytes(data)


def test_after_a_crash_of_the_process_the_marker_has_the_epoch_of_its_run(killed: Path) -> None:
    report = recover(killed, process_crash=True)

    assert marker(killed) == {"version": 0, "brokerEpoch": EPOCH_OF_KILLED}
    assert report.notes == ()


def note_in(directory: Path, epoch: int, *, has_cut: bool, registration: int | None = None) -> None:
    note = {"version": 0, "was_clean": True, "broker_epoch": epoch, "has_cut": has_cut}
    note["registration"] = registration
    (directory / NOTE).write_text(json.dumps(note))


def test_an_old_note_had_the_last_word_though_a_broker_had_run_since(killed: Path) -> None:
    other = copy_of("killed", killed.parent / "other")
    for directory in (killed, other):
        note_in(directory, EPOCH_OF_KILLED - 1, has_cut=False, registration=EPOCH_OF_KILLED - 1)

    recover(killed)
    report = recover(other, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert marker(other) == {"version": 0, "brokerEpoch": EPOCH_OF_KILLED}
    assert report.notes == ()


@pytest.mark.parametrize(("epoch", "has_cut"), [(EPOCH_OF_KILLED - 1, True), (-1, False)])
def test_a_note_that_promises_nothing_is_not_forgotten(killed: Path, epoch: int, has_cut: bool) -> None:
    """More was cut off than a torn tail; or a power cut came before, and nobody knows what it took."""
    note_in(killed, epoch, has_cut=has_cut)

    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert "--process-crash" in report.notes[0]


@pytest.mark.parametrize("process_crash", [False, True])
def test_killed_and_repeated_a_run_keeps_the_epoch_of_a_directory_that_missed_a_run(
    killed: Path, process_crash: bool
) -> None:
    """It was offline in the broker's last run, so its file is older than the last registration."""
    (killed / MARKER).write_text(json.dumps({"version": 0, "brokerEpoch": EPOCH_OF_CLEAN}))
    options: dict[str, object] = {"scan_all": True, "process_crash": process_crash}
    planned = recover_one(killed, dry_run=True, **options)
    with pytest.raises(Killed):
        recover(killed, disk=MortalDisk(8), readers=1, **options)
    assert not (killed / MARKER).exists()

    report = recover_one(killed, **options)

    assert (planned.broker_epoch, report.broker_epoch) == (EPOCH_OF_CLEAN, EPOCH_OF_CLEAN)


@pytest.mark.parametrize("process_crash", [False, True])
def test_a_dry_run_knows_the_epoch_also_beside_a_pending_write(killed: Path, process_crash: bool) -> None:
    (killed / MARKER).write_text(json.dumps({"version": 0, "brokerEpoch": EPOCH_OF_CLEAN}))
    journal = Journal(pending=PendingWrite(write="w", partitions=()))
    (killed / JOURNAL).write_bytes(format_journal(journal))

    plan = recover(killed, dry_run=True, process_crash=process_crash)
    report = recover(killed, process_crash=process_crash)

    assert marker(killed) == {"version": 0, "brokerEpoch": EPOCH_OF_CLEAN}
    assert plan.directories[0].broker_epoch == EPOCH_OF_CLEAN
    assert plan.notes == report.notes


def test_the_note_of_the_last_run_keeps_its_epoch(killed: Path) -> None:
    note = {"version": 0, "was_clean": True, "broker_epoch": EPOCH_OF_KILLED, "has_cut": False}
    (killed / NOTE).write_text(json.dumps(note))

    recover(killed)

    assert marker(killed) == {"version": 0, "brokerEpoch": EPOCH_OF_KILLED}


def test_a_torn_tail_is_how_a_crash_of_the_process_looks(killed: Path) -> None:
    log = killed / "codecs-0" / "00000000000000000012.log"
    with log.open("ab") as file:
        file.write(log.read_bytes()[:40])

    recover(killed, process_crash=True)

    assert marker(killed) == {"version": 0, "brokerEpoch": EPOCH_OF_KILLED}


def test_with_more_cut_than_a_torn_tail_nothing_is_promised(killed: Path) -> None:
    (killed / RECOVERY_POINTS).unlink()
    damage(killed / "idempotent-0" / "00000000000000000000.log")

    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert "more was cut off than the unfinished last batch" in report.notes[0]


def test_batches_behind_a_length_that_reaches_past_the_end_are_more_than_a_torn_tail(killed: Path) -> None:
    let_length_reach_past_the_end(killed)

    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert "more was cut off than the unfinished last batch" in report.notes[0]


def test_what_is_salvaged_behind_a_tail_that_looks_torn_promises_nothing(killed: Path) -> None:
    """Every batch but the damaged one stays, and the log ends where it did: the epoch would be a lie."""
    let_length_reach_past_the_end(killed)

    report = recover(killed, salvage=True, process_crash=True)

    (found,) = [part for part in report.directories[0].partitions if part.name == "idempotent-0"]
    assert found.log_end_offset == ends_by_kafka("killed")["idempotent-0"]
    assert marker(killed) == NO_EPOCH


def test_salvage_with_nothing_to_salvage_keeps_the_promise(killed: Path) -> None:
    tail = bytes(8) + (100_000).to_bytes(4, "big") + b"half"
    with (killed / "rolled-0" / "00000000000000000088.log").open("ab") as file:
        file.write(tail)

    recover(killed, salvage=True, process_crash=True)

    assert marker(killed) == {"version": 0, "brokerEpoch": EPOCH_OF_KILLED}


def lose_the_end(killed: Path) -> None:
    """Leave of a log the first batch of its last segment, below its high watermark, as a power cut can."""
    log = killed / "codecs-0" / "00000000000000000012.log"
    data = log.read_bytes()
    log.write_bytes(data[: 12 + int.from_bytes(data[8:12], "big")])


def test_a_log_that_ends_before_its_high_watermark_has_lost_records(killed: Path) -> None:
    lose_the_end(killed)

    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    (problem,) = report.directories[0].problems
    assert (problem.name, "high watermark was 120" in problem.words) == ("codecs-0", True)


def test_killed_when_the_high_watermark_was_lowered_the_loss_is_not_forgotten(killed: Path) -> None:
    lose_the_end(killed)

    class Dying(Disk):
        def replace(self, path: str | os.PathLike[str], data: object) -> None:
            if os.fspath(path).endswith(RECOVERY_POINTS):
                raise Killed
            super().replace(path, data)  # type: ignore[arg-type]

    with pytest.raises(Killed):
        recover(killed, disk=Dying())
    recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH


def test_what_was_recovered_with_cuts_is_not_promised_by_a_later_run(killed: Path) -> None:
    damage(killed / "blocks-0" / "00000000000000000000.log")
    recover(killed)

    recover(killed, process_crash=True, scan_all=True)

    assert marker(killed) == NO_EPOCH


def epoch_by_kafka(*directories: Path) -> int | None:
    """How a broker reads the files: LogManager.readBrokerEpochFromCleanShutdownFiles, step by step."""
    seen = -1
    for directory in directories:
        found = json.loads((directory / MARKER).read_bytes()).get("brokerEpoch")
        if found is None or (seen != -1 and found != seen):
            return None
        seen = found
    return seen


def test_no_broker_takes_the_epoch_of_a_clean_directory_for_that_of_a_recovered_one(
    killed: Path, clean: Path
) -> None:
    recover(killed, clean)

    assert (marker(killed), marker(clean)) == (SAYS_NOTHING, {"version": 0, "brokerEpoch": EPOCH_OF_CLEAN})
    assert epoch_by_kafka(killed, clean) is None
    assert epoch_by_kafka(clean, killed) is None


def test_no_broker_takes_the_epoch_of_an_uncut_directory_for_that_of_a_cut_one(tmp_path: Path) -> None:
    cut, uncut = copy_of("clean", tmp_path / "cut"), copy_of("clean", tmp_path / "uncut")
    (cut / RECOVERY_POINTS).unlink()
    damage(cut / "idempotent-0" / "00000000000000000000.log")

    recover(cut, uncut, scan_all=True)

    assert (marker(cut), marker(uncut)) == (SAYS_NOTHING, {"version": 0, "brokerEpoch": EPOCH_OF_CLEAN})
    assert epoch_by_kafka(cut, uncut) is None


def test_a_marker_that_says_nothing_says_nothing_again(killed: Path) -> None:
    (killed / MARKER).write_text('{"version":0}')

    recover(killed, scan_all=True)

    assert marker(killed) == SAYS_NOTHING


def test_beside_a_directory_that_was_recovered_before_nothing_is_promised(tmp_path: Path) -> None:
    """One of two failed at first; the other's own clean-shutdown file says what that one has lost."""
    first, second = copy_of("killed", tmp_path / "first"), copy_of("killed", tmp_path / "second")
    recover(first)

    report = recover(first, second, process_crash=True)

    assert (marker(first), marker(second)) == (NO_EPOCH, NO_EPOCH)
    assert "its clean-shutdown file has another epoch or none" in report.notes[0]


def test_with_a_directory_of_the_broker_not_named_nothing_is_promised(killed: Path) -> None:
    """The last registration in the cluster's metadata names one directory, which is another then."""
    file = killed / "meta.properties"
    file.write_text(file.read_text().replace("jkXBCQ7L9FXzQeGWYPU3MQ", "kkXBCQ7L9FXzQeGWYPU3MQ"))

    report = recover(killed, process_crash=True)

    assert marker(killed) == SAYS_NOTHING
    assert "jkXBCQ7L9FXzQeGWYPU3MQ" in report.notes[0]


def test_without_the_clusters_metadata_the_epoch_is_not_known(killed: Path) -> None:
    shutil.rmtree(killed / "__cluster_metadata-0")

    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert "cluster's metadata" in report.notes[0]


@pytest.mark.parametrize("batches_count", [0, 1])
def test_records_that_only_an_index_remembers_were_promised_to_be_there(
    killed: Path, batches_count: int
) -> None:
    truncate_to_batches(killed / "rolled-0" / "00000000000000000088.log", batches_count)
    forget_high_watermark(killed, "rolled")

    plan = recover(killed, process_crash=True, dry_run=True)
    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert "other records may be missing" in report.notes[0]
    assert plan.notes == report.notes
    assert missing(plan) == missing(report)
    ((name, finding),) = missing(report)
    assert (name, finding.file) == ("rolled-0", "00000000000000000088.log")
    end = 88 + 4 * batches_count
    assert finding.words == f"Its index shows that it had records up to offset 99; it ends at offset {end}."


def test_a_missing_log_in_the_middle_was_promised_to_be_there(killed: Path) -> None:
    (killed / "rolled-0" / "00000000000000000040.log").unlink()

    plan = recover(killed, process_crash=True, dry_run=True)
    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert missing(plan) == missing(report)
    ((name, finding),) = missing(report)
    assert (name, finding.file) == ("rolled-0", "00000000000000000040.log")
    assert "the records of the offsets 40 to 55" in finding.words


def truncate_to_batches(log: Path, count: int) -> None:
    data, end = log.read_bytes(), 0
    for _ in range(count):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    log.write_bytes(data[:end])


def forget_high_watermark(directory: Path, topic: str) -> None:
    """Of one log, so that nothing but its indexes shows where it ended."""
    path = directory / HIGH_WATERMARKS
    version, count, *lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(f"{topic} ")]
    path.write_text("\n".join([version, str(int(count) - 1), *kept, ""]))


def missing(report: RecoveryReport) -> list[tuple[str, Finding]]:
    return [
        (partition.name, finding)
        for directory in report.directories
        for partition in directory.partitions
        for finding in partition.findings
        if finding.kind is FindingKind.MISSING_RECORDS
    ]


def test_a_folder_that_is_gone_promises_nothing(killed: Path) -> None:
    shutil.rmtree(killed / "codecs-0")

    report = recover(killed, process_crash=True)

    assert marker(killed) == NO_EPOCH
    assert "other records may be missing" in report.notes[0]


def test_all_takes_the_epoch_of_a_clean_directory_whose_folder_is_gone(clean: Path) -> None:
    shutil.rmtree(clean / "codecs-0")

    recover(clean, scan_all=True)

    assert marker(clean) == NO_EPOCH
