"""What recovery kept: listed, looked into, written to a file, deleted."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from stratalog.errors import (
    DiskError,
    LogDirLockedError,
    NeedsRecoveryError,
    NotALogDirectoryError,
    QuarantineError,
    UsageError,
)
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import QUARANTINE_MANIFEST
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.operations.quarantine import QuarantineRequest
from stratalog.operations.recover import RecoverOptions, recover
from tests.fixtures.catalog import partitions
from tests.manager.running import contents
from tests.operations.quarantined import recovered
from tests.operations.test_recover_owners import as_nobody, reachable

__all__ = ["reachable"]

(TXN,) = [each for each in partitions("4.3.1", "killed") if each.name == "txn-0"]


def asked(*directories: Path, **options: object) -> QuarantineRequest:
    return QuarantineRequest(directories=[str(path) for path in directories], **options)  # type: ignore[arg-type]


def ids(request: QuarantineRequest) -> dict[str, str]:
    return {found.entry.partition: found.id for found in request.listed().ranges}


def test_a_name_was_refused_because_of_a_range_that_is_purged(tmp_path: Path) -> None:
    """`a-1` is a partition of `a`, and was also a topic."""
    root, _ = recovered(tmp_path / "data")
    quarantine = Quarantine(Disk(), root)
    for partition in ("a-1", "a-1-0"):
        log = tmp_path / partition
        log.write_bytes(bytes(range(100)))
        quarantine.keep_range(log, partition=partition, file=log.name, position=0, size=50, reason="test")
    with pytest.raises(UsageError):
        asked(root, names=["a-1"]).listed()

    (purged,) = [entry for entry in quarantine.entries() if entry.partition == "a-1-0"]
    quarantine.replace(purged, None, reason="purged later")

    assert [*ids(asked(root, names=["a-1"]))] == ["a-1"]


def test_everything_that_was_cut_off_is_listed(tmp_path: Path) -> None:
    root, cut = recovered(tmp_path / "data")
    before = contents(root)

    report = asked(root).listed()

    assert {found.entry.partition: found.entry.size for found in report.ranges} == {
        name: len(data) for name, data in cut.items()
    }
    assert len({found.id for found in report.ranges}) == len(cut)
    assert contents(root) == before


def test_names_choose_partitions_or_topics(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")

    assert [*ids(asked(root, names=("txn",)))] == ["txn-0"]
    assert [*ids(asked(root, names=("rolled-0",)))] == ["rolled-0"]


def test_a_name_of_a_topic_and_of_a_partition_chose_both(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    manifest = root / QUARANTINE_MANIFEST
    line = next(line for line in manifest.read_text().splitlines() if '"rolled-0"' in line)
    with manifest.open("a") as file:
        file.write(line.replace('"rolled-0"', '"rolled-0-0"') + "\n")

    with pytest.raises(UsageError, match="rolled-0 is the name of a topic here, and also of partition 0"):
        asked(root, names=("rolled-0",)).listed()


def test_the_batches_of_a_range_are_those_that_kafka_wrote(tmp_path: Path) -> None:
    root, cut = recovered(tmp_path / "data")
    request = asked(root)
    written = list(TXN.batches(TXN.logs[-1]))[1:]

    shown = request.show(ids(request)["txn-0"])

    assert [(batch.base_offset, batch.last_offset) for batch in shown.batches] == [
        (batch["baseOffset"], batch["lastOffset"]) for batch in written
    ]
    assert [batch.is_valid for batch in shown.batches] == [False, *[True] * (len(written) - 1)]
    assert sum(batch.size for batch in shown.batches) + shown.hidden_size == len(cut["txn-0"])
    few = request.show(ids(request)["txn-0"], top=2)
    assert (len(few.batches), few.batches_count) == (2, len(written))


def test_half_a_batch_is_hidden_bytes(tmp_path: Path) -> None:
    root, cut = recovered(tmp_path / "data")
    request = asked(root)

    shown = request.show(ids(request)["rolled-0"])

    assert (shown.batches, shown.hidden_size) == ((), len(cut["rolled-0"]))


def test_a_restored_file_has_the_bytes_that_were_cut_off(tmp_path: Path) -> None:
    root, cut = recovered(tmp_path / "data")
    request, before = asked(root), contents(root)

    for name, wanted in ids(request).items():
        plan = request.restore(wanted, str(tmp_path / name), dry_run=True)
        assert not (tmp_path / name).exists()
        done = request.restore(wanted, str(tmp_path / name))
        assert (plan.is_plan, plan.ranges) == (True, done.ranges)
        assert (tmp_path / name).read_bytes() == cut[name]
    assert contents(root) == before


def test_in_a_folder_a_restored_file_has_the_name_that_dump_needs(tmp_path: Path) -> None:
    root, cut = recovered(tmp_path / "data")
    request = asked(root)
    wanted = ids(request)["txn-0"]
    (tmp_path / "folder").mkdir()
    name = request.listed().ranges[1].entry.file

    done = request.restore(wanted, str(tmp_path / "folder"))
    other = request.restore(wanted, str(tmp_path / "lost.log"))

    assert (tmp_path / "folder" / name).read_bytes() == cut["txn-0"]
    assert done.words() == []
    assert f"rename it to {name}: `stratalog dump`" in other.words()[0]
    assert request.listed().words() == []
    with pytest.raises(UsageError, match="exists already"):
        request.restore(wanted, str(tmp_path / "folder"))


def test_no_file_is_left_of_bytes_that_have_changed(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    request = asked(root)
    wanted = ids(request)["txn-0"]
    (kept,) = root.glob("stratalog-quarantine-txn-0-*")
    data = bytearray(kept.read_bytes())
    data[3] ^= 1
    kept.write_bytes(data)

    with pytest.raises(QuarantineError, match="have changed"):
        request.restore(wanted, str(tmp_path / "file"))

    assert not (tmp_path / "file").exists()


def test_a_link_that_leads_nowhere_was_deleted_by_a_restore(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    request = asked(root)
    wanted = ids(request)["txn-0"]
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "file")

    for dry_run in (True, False):
        with pytest.raises(UsageError, match="exists already"):
            request.restore(wanted, str(tmp_path / "link"), dry_run=dry_run)

    assert (tmp_path / "link").is_symlink()


def test_a_file_was_restored_into_a_log_directory_through_a_link(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    request = asked(root)
    (tmp_path / "link").symlink_to(root)
    before = contents(root)

    with pytest.raises(UsageError, match="this is in a log directory"):
        request.restore(ids(request)["txn-0"], str(tmp_path / "link" / "file"))

    assert contents(root) == before


def test_a_file_that_another_program_created_first_was_deleted_by_a_restore(tmp_path: Path) -> None:
    class OtherIsFirst(Disk):
        def create(self, path: str | os.PathLike[str], size: int = 0) -> None:
            Path(path).write_bytes(b"of another program")
            super().create(path, size)

    root, _ = recovered(tmp_path / "data")
    request = asked(root, disk=OtherIsFirst())

    with pytest.raises(DiskError) as raised:
        request.restore(ids(request)["txn-0"], str(tmp_path / "file"))

    assert raised.value.errno == errno.EEXIST
    assert (tmp_path / "file").read_bytes() == b"of another program"


def test_the_reason_why_nothing_was_restored_is_told_although_the_file_cannot_be_deleted(
    tmp_path: Path,
) -> None:
    class NothingIsDeleted(Disk):
        def delete(self, path: str | os.PathLike[str]) -> bool:
            raise DiskError(path, "the second error.")

    root, _ = recovered(tmp_path / "data")
    (kept,) = root.glob("stratalog-quarantine-txn-0-*")
    kept.write_bytes(bytes(kept.stat().st_size))
    request = asked(root, disk=NothingIsDeleted())

    with pytest.raises(QuarantineError, match="have changed"):
        request.restore(ids(request)["txn-0"], str(tmp_path / "file"))


@pytest.mark.parametrize(
    "name", ["../outside.txt", "../data/txn-0/0.log", "/outside.txt", "a\0b", "\ud800", "", ".", ".."]
)
def test_a_name_in_the_manifest_led_a_restored_file_out_of_the_folder(tmp_path: Path, name: str) -> None:
    root, _ = recovered(tmp_path / "data")
    folder = tmp_path / "folder"
    folder.mkdir()
    manifest = root / QUARANTINE_MANIFEST
    lines = [json.loads(line) for line in manifest.read_bytes().splitlines()]
    manifest.write_text("".join(json.dumps({**line, "file": name}) + "\n" for line in lines))
    request = asked(root)
    before = contents(tmp_path)

    for found in request.listed().ranges:
        request.restore(found.id, f"{folder}/")

    assert contents(tmp_path) == before


def test_a_file_is_not_restored_over_another_or_into_a_log_directory(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    request = asked(root)
    wanted = ids(request)["txn-0"]
    (tmp_path / "there").touch()
    before = contents(root)

    for target in (tmp_path / "there", root / "file", root / "txn-0" / "file", tmp_path / "no" / "file"):
        with pytest.raises(UsageError, match="--to"):
            request.restore(wanted, str(target))
    with pytest.raises(UsageError, match=r"--to .*/no/: .*/no does not exist\."):  # not a file named no
        request.restore(wanted, f"{tmp_path}/no/")
    with pytest.raises(UsageError, match=r"there is not a folder\."):
        request.restore(wanted, str(tmp_path / "there" / "file"))

    assert contents(root) == before
    assert sorted(tmp_path.iterdir()) == [root, tmp_path / "there"]


def test_purging_deletes_the_bytes_and_leaves_the_logs_and_the_clean_shutdown(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    request, before = asked(root), contents(root)
    plan = request.purge(dry_run=True)
    assert contents(root) == before

    report = request.purge()

    assert plan.ranges == report.ranges
    assert request.listed().ranges == ()
    assert not list(root.glob("stratalog-quarantine-*-0-*"))
    manifest = "stratalog-quarantine.jsonl"
    assert {name: data for name, data in before.items() if "stratalog-quarantine" not in name} == {
        name: data for name, data in contents(root).items() if name != manifest
    }
    assert (root / ".kafka_cleanshutdown").exists()
    assert "purged later" in (root / manifest).read_text()
    assert request.purge().ranges == ()


def test_zeros_that_were_purged_were_listed_for_ever(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    request = asked(root)
    request.purge()
    log = root / "rolled-0" / f"{88:020d}.log"
    whole = log.read_bytes()

    for _ in range(2):  # the same zeros, kept and purged again
        log.write_bytes(whole + bytes(8192))
        recover([str(root)], RecoverOptions(scan_all=True))
        (kept,) = request.listed().ranges
        assert (kept.entry.size, kept.entry.files) == (8192, ())
        assert request.purge().verdict == "1 range was deleted, 8.2 kB."
        assert request.listed().ranges == ()
        assert request.purge().verdict == "Nothing to do."


def test_only_what_is_asked_for_is_purged(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    request = asked(root)
    kept = {found.entry.partition: found for found in request.listed().ranges}

    assert request.purge(before_ms=min(found.entry.time_ms for found in kept.values())).ranges == ()
    report = request.purge([kept["txn-0"].id])

    assert [found.entry.partition for found in report.ranges] == ["txn-0"]
    assert [*ids(request)] == ["rolled-0"]
    last = kept["rolled-0"].entry.time_ms
    assert [found.id for found in request.purge(before_ms=last + 1).ranges] == [kept["rolled-0"].id]


def test_another_place_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    root, cut = recovered(tmp_path / "data", tmp_path / "kept")
    assert asked(root).listed().ranges == ()
    request = asked(root, places=[str(tmp_path / "kept")])

    assert ids(request).keys() == cut.keys()
    request.purge()
    assert request.listed().ranges == ()


def test_a_directory_in_use_or_not_shut_down_cleanly_is_not_purged(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")
    before = contents(root)

    for dry_run in (True, False):
        with DirectoryLock(root), pytest.raises(LogDirLockedError):
            asked(root).purge(dry_run=dry_run)
    (root / ".kafka_cleanshutdown").unlink()
    for dry_run in (True, False):
        with pytest.raises(NeedsRecoveryError) as refused:
            asked(root).purge(dry_run=dry_run)
        assert "--recover" not in str(refused.value)

    assert contents(root) == {name: data for name, data in before.items() if name != ".kafka_cleanshutdown"}


def test_an_id_that_nothing_has_is_wrong_usage(tmp_path: Path) -> None:
    root, _ = recovered(tmp_path / "data")

    for wanted in ("zzz", ""):
        with pytest.raises(UsageError, match="quarantine list"):
            asked(root).show(wanted)


def test_what_is_not_a_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirectoryError):
        asked(tmp_path).listed()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_user_could_not_restore_into_a_folder_of_another_user(reachable: Path) -> None:
    root, cut = recovered(reachable / "data")
    (reachable / "open").mkdir()
    (reachable / "open").chmod(0o777)

    with as_nobody():
        request = asked(root)
        request.restore(ids(request)["txn-0"], str(reachable / "open" / "file"))

    assert (reachable / "open" / "file").read_bytes() == cut["txn-0"]
