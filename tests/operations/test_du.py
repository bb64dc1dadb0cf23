"""`du`: every file is counted once, in the right row; and what is known of its future."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stratalog.directory.known_topics import TopicSources
from stratalog.errors import NotALogDirectoryError, UsageError
from stratalog.log.cleaning.tally import Prefix
from stratalog.operations.du import OTHERS, QUARANTINED, STRAYS, WAITING, By, DiskUsage
from stratalog.operations.du_report import DiskUse, DuReport
from stratalog.operations.report import Status
from tests.cli.planting import SET_SIZE, Planted
from tests.directory.refused import with_second
from tests.fixtures.catalog import log_dirs, partitions
from tests.log.model import NOW
from tests.manager.running import contents, fixture_copy
from tests.operations.test_disk_tree import found_by_find
from tests.operations.test_recover_owners import as_nobody, reachable

__all__ = ["reachable"]


def used(*directories: Path, **options: object) -> DuReport:
    return DiskUsage(directories=[str(path) for path in directories], **options).run()  # type: ignore[arg-type]


def by_name(report: DuReport) -> dict[str, DiskUse]:
    return {use.name: use for use in report.uses}


@pytest.mark.parametrize("by", By)
@pytest.mark.parametrize("logs", log_dirs(), ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_all_rows_together_are_all_files(logs: Path, by: By) -> None:
    before, files = contents(logs), found_by_find(logs)

    report = used(logs, by=by)

    totals = report.totals()
    assert totals["files"] == len(files)
    assert totals["bytes"] == sum(size for size, _ in files.values())
    assert totals["bytes_on_disk"] == sum(blocks for _, blocks in files.values())
    sizes = [use.disk_size for use in report.uses]
    assert sizes == sorted(sizes, reverse=True)
    assert report.status is Status.FINE
    assert contents(logs) == before


def test_a_row_of_a_partition_is_its_folder() -> None:
    (logs,) = log_dirs("4.3.1", "killed")
    files = found_by_find(logs)

    rows = by_name(used(logs, by=By.PARTITION))

    for partition in partitions("4.3.1", "killed"):
        own = [sizes for path, sizes in files.items() if path.startswith(f"{partition.name}/")]
        found = rows[partition.name]
        assert (found.files_count, found.size) == (len(own), sum(size for size, _ in own))
        assert found.disk_size == sum(blocks for _, blocks in own)
        assert found.log_size == sum(log.stat().st_size for log in partition.logs)


def test_what_belongs_to_no_topic_has_rows_of_its_own(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "stratalog-quarantine-rolled-0-1").write_bytes(b"x" * 5000)
    (data / "old-1.0123456789abcdef0123456789abcdef-stray").mkdir()
    (data / "old-1.0123456789abcdef0123456789abcdef-stray" / "file").write_bytes(b"y" * 6000)
    (data / "lost+found").mkdir()
    (data / "lost+found" / "file").write_bytes(b"z" * 7000)
    rows = by_name(used(data))

    assert rows[QUARANTINED].size == 5000
    assert rows[STRAYS].size == 6000
    waiting = sum(path.stat().st_size for path in data.glob("*-delete/*"))
    assert rows[WAITING].size == waiting > 0
    assert rows[OTHERS].size == 7000 + sum(
        path.stat().st_size for path in data.iterdir() if path.is_file() and "quarantine" not in path.name
    )


def test_files_that_wait_for_their_deletion_are_counted_apart(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "rolled-0" / f"{0:020d}.log").rename(data / "rolled-0" / f"{0:020d}.log.deleted")

    found = by_name(used(data))["rolled"]

    deleted = data / "rolled-0" / f"{0:020d}.log.deleted"
    assert found.waiting_size == deleted.stat().st_blocks * 512
    assert found.log_size == sum(path.stat().st_size for path in (data / "rolled-0").glob("*.log"))


def test_rows_of_two_directories(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    other = with_second(data)

    report = used(data, other, by=By.DIRECTORY)

    expected = {str(root): sum(size for size, _ in found_by_find(root).values()) for root in (data, other)}
    assert {use.name: use.size for use in report.uses} == expected
    free = os.statvfs(data).f_bavail * os.statvfs(data).f_frsize
    assert report.directories[0].free_size == pytest.approx(free, rel=0.1)


def test_du_as_root_does_not_count_the_blocks_that_are_reserved_for_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    system = os.statvfs_result((4096, 4096, 1000, 300, 100, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: system)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    report = used(logs)

    assert report.directories[0].free_size == 100 * 4096
    assert " 409.6 kB free." in report.verdict


def test_a_name_leaves_only_its_partitions() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    report = used(logs, names=("rolled", "txn-0"), by=By.PARTITION)

    assert sorted(use.name for use in report.uses) == ["rolled-0", "txn-0"]


def test_what_retention_frees_now_and_next_is_what_the_settings_say(tmp_path: Path) -> None:
    settings = {"retention.ms": 10_000}
    with Planted(
        tmp_path, orders=settings, limited={"retention.ms": -1, "retention.bytes": 12 * SET_SIZE}
    ) as planted:
        for age in (20_000, 7_000, 0):
            planted.fill("orders", 5, timestamp=NOW - age, high_watermark=0)
            planted.fill("limited", 5, timestamp=NOW - age)
    sources = TopicSources(topic_settings=planted.settings.read_text())

    rows = by_name(used(planted.data, sources=sources, clock=lambda: NOW))

    orders, limited = rows["orders"].freed, rows["limited"].freed
    assert (orders.now_size, orders.next_size, orders.next_ms) == (
        5 * SET_SIZE,
        5 * SET_SIZE,
        NOW - 7_000 + 10_000 + 1,
    )
    assert (limited.now_size, limited.next_size, limited.next_growth) == (0, 5 * SET_SIZE, 2 * SET_SIZE)
    assert not rows["orders"].is_assumed


def test_settings_that_are_not_known_are_said_to_be_assumed() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    report = used(logs)

    assert by_name(report)["rolled"].is_assumed
    assert any("by Kafka's defaults" in words for words in report.words())


def test_growth_is_that_of_the_segments(tmp_path: Path) -> None:
    with Planted(tmp_path, orders={}) as planted:
        planted.fill("orders", 5, timestamp=NOW - 12 * 3_600_000)
        planted.fill("orders", 5, timestamp=NOW)

    report = used(planted.data, clock=lambda: NOW)

    assert by_name(report)["orders"].growth == 2 * 10 * SET_SIZE
    assert report.directories[0].growth == 20 * SET_SIZE
    assert report.directories[0].days_left == report.directories[0].free_size / (20 * SET_SIZE)


def test_keys_are_counted_only_if_they_are_asked_for() -> None:
    (logs,) = log_dirs("4.3.1", "clean")

    assert used(logs, names=("rolled",)).keys == ()
    (usage,) = used(logs, names=("rolled",), keys=Prefix(size=1), top=0).keys
    assert [count.key for count in usage.counts] == [b"k"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_folder_that_this_user_may_not_read_is_told_once(reachable: Path) -> None:
    data = fixture_copy("clean", reachable / "data")
    (data / "rolled-0").chmod(0o700)

    with as_nobody():
        report = used(data)

    assert report.status is Status.FAILED
    assert [path for path, _ in report.every_error] == [str(data / "rolled-0")]
    assert by_name(report)["txn"].log_size > 0


def test_a_name_that_is_not_there_is_wrong_usage() -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    with pytest.raises(UsageError):
        used(logs, names=("nothing",))


def test_what_is_not_a_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALogDirectoryError):
        used(tmp_path)


def test_the_size_of_a_preallocated_log_is_what_was_written(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    newest = max((data / "rolled-0").glob("*.log"))
    before = by_name(used(data))["rolled"].log_size
    with newest.open("ab") as file:
        file.truncate(1 << 20)

    found = by_name(used(data))["rolled"]

    assert found.log_size == before
    assert found.size > 1 << 20
