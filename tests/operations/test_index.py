"""`index`: indexes of a real broker that are right stay; those that are missing or wrong are rebuilt."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog import audit
from stratalog.cli import main
from stratalog.clock import system_clock
from stratalog.config import LogConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.directory.session import Unclean
from stratalog.errors import LogDirLockedError, NeedsRecoveryError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import TopicPartition
from stratalog.log.api.view import LogView
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.index import Reindexing
from stratalog.operations.index_report import IndexReport
from tests.directory.recovery.recovering import SERVER
from tests.fixtures.catalog import log_dirs, partitions
from tests.manager.running import contents, fixture_copy

Damage = Callable[[Path], None]
INDEX, TIMES, TXN = f"{20:020d}.index", f"{20:020d}.timeindex", f"{6:020d}.txnindex"


def indexed(root: Path, **options: object) -> IndexReport:
    sources = TopicSources(server=SERVER)
    return Reindexing(directories=[str(root)], sources=sources, **options).run()  # type: ignore[arg-type]


def rebuilt(report: IndexReport) -> dict[str, list[str]]:
    return {
        partition.name: [index.file for index in partition.rebuilt]
        for partition in report.partitions
        if partition.rebuilt
    }


def flip(at: int) -> Damage:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return damage


def write(data: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(data(path.read_bytes())) and None


def found_by(root: Path, partition: str) -> list[tuple[object, ...]]:
    """Where look-ups by offset and by time lead, for each batch that Kafka wrote."""
    topic = partition.rpartition("-")[0]
    view = LogView(
        disk=Disk(),
        clock=system_clock,
        directory=root / partition,
        topic_partition=TopicPartition(topic, 0),
        config=LogConfig(),
    )
    (known,) = [each for each in partitions("4.3.1", "clean") if each.name == partition]
    files = {log.name for log in known.logs}
    return [
        (
            view.read(batch["lastOffset"], 1).offset,
            view.fetch_offset_by_timestamp(batch["maxTimestamp"]),
        )
        for batch in known.batches()
        if batch["file"] in files
    ]


@pytest.mark.parametrize("logs", log_dirs(state="clean"), ids=lambda path: path.parts[-3])
def test_the_indexes_of_a_real_broker_are_right_and_stay(logs: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(logs, tmp_path / "data"))
    before = contents(root)

    report = indexed(root)

    assert rebuilt(report) == {}
    assert not report.left_count
    assert report.totals()["segments"] > 10
    assert contents(root) == before


WRONG: dict[str, tuple[str, Damage]] = {
    "a missing index": (INDEX, Path.unlink),
    "a missing time index": (TIMES, Path.unlink),
    "an entry that points elsewhere": (INDEX, flip(7)),
    "an entry with another offset": (INDEX, flip(3)),
    "a time that no batch has": (TIMES, flip(7)),
    "half an entry": (INDEX, write(lambda data: data[:-3])),
    "half a time entry": (TIMES, write(lambda data: data[:-3])),
    "an empty time index": (TIMES, write(lambda _: b"")),
    "zeros after the entries": (INDEX, write(lambda data: data + bytes(80))),
    "zeros after the time entries": (TIMES, write(lambda data: data + bytes(120))),
    "entries that descend": (INDEX, write(lambda data: data[8:] + data[:8])),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_rebuilt_and_nothing_else(name: str, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    looked_up, whole = found_by(root, "rolled-0"), contents(root)
    file, damage = WRONG[name]
    damage(root / "rolled-0" / file)
    damaged = contents(root)

    plan = indexed(root, dry_run=True)

    assert contents(root) == damaged
    assert rebuilt(plan) == {"rolled-0": [file]}
    report = indexed(root)
    assert rebuilt(report) == rebuilt(plan)
    assert report.verdict == "The broker can be started."
    after = contents(root)
    path = f"rolled-0/{file}"
    assert {key: data for key, data in after.items() if key != path} == {
        key: data for key, data in whole.items() if key != path
    }
    assert found_by(root, "rolled-0") == looked_up
    assert rebuilt(indexed(root)) == {}


def test_rebuilt_indexes_are_those_that_the_broker_wrote(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    whole = contents(root)
    topics = ("codecs-0", "headers-0", "logappend-0", "trimmed-0", "txn-0")
    files = [path for topic in topics for path in (root / topic).glob("*index")]
    for path in files:
        path.unlink()

    report = indexed(root)

    # A segment without an aborted transaction needs no .txnindex.
    assert sum(map(len, rebuilt(report).values())) == len([path for path in files if path.name != TXN]) + 1
    assert contents(root) == whole


def test_an_abort_that_its_index_lacks_comes_back(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    whole = contents(root)
    path = root / "txn-0" / TXN
    data = path.read_bytes()
    for wrong in (data[:-34], b"", data[:-3], data + data[:3], None):
        if wrong is None:
            path.unlink()
        else:
            path.write_bytes(wrong)

        assert rebuilt(indexed(root)) == {"txn-0": [TXN]}

        assert contents(root) == whole


def test_damage_in_a_log_is_refused_and_the_other_partitions_are_mended(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(200)(root / "rolled-0" / f"{20:020d}.log")
    (root / "rolled-0" / INDEX).unlink()
    (root / "codecs-0" / f"{0:020d}.index").unlink()
    before = contents(root)

    report = indexed(root)

    assert rebuilt(report) == {"codecs-0": [f"{0:020d}.index"]}
    assert report.to_recover == ["rolled-0"]
    assert report.status == 3
    assert "recover --all" in " ".join(report.words())
    after = contents(root)
    assert {name: data for name, data in after.items() if name.startswith("rolled-0")} == {
        name: data for name, data in before.items() if name.startswith("rolled-0")
    }


def test_a_name_leaves_the_other_topics_alone(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    for topic in ("rolled-0", "codecs-0"):
        (root / topic / f"{0:020d}.index").unlink()

    assert [*rebuilt(indexed(root, names=("codecs",)))] == ["codecs-0"]
    assert not (root / "rolled-0" / f"{0:020d}.index").exists()
    with pytest.raises(UsageError):
        indexed(root, names=("nothing",))


def test_the_clean_shutdown_file_comes_back_as_it_was(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    marker = (root / ".kafka_cleanshutdown").read_bytes()
    (root / "rolled-0" / INDEX).unlink()

    indexed(root)

    assert (root / ".kafka_cleanshutdown").read_bytes() == marker


def test_an_interrupted_replacement_is_left_to_recovery(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (root / "rolled-0" / INDEX).unlink()
    (root / "rolled-0" / f"{0:020d}.log.cleaned").touch()

    assert indexed(root).to_recover == ["rolled-0"]


def test_a_directory_in_use_or_not_shut_down_cleanly_is_refused(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    killed = fixture_copy("killed", tmp_path / "killed")
    (root / "rolled-0" / INDEX).unlink()
    before, other = contents(root), contents(killed)

    for dry_run in (True, False):
        with DirectoryLock(root), pytest.raises(LogDirLockedError):
            indexed(root, dry_run=dry_run)
        with pytest.raises(NeedsRecoveryError):
            indexed(killed, dry_run=dry_run)

    assert contents(root) == before
    assert contents(killed) == other
    report = indexed(killed, unclean=Unclean.RECOVER)
    assert report.recovery is not None
    assert rebuilt(report) == {}


def test_recovery_left_a_wrong_entry_that_an_audit_had_sent_it_to_rebuild(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(7)(root / "rolled-0" / INDEX)
    (finding,) = [each for each in audit([str(root)]).findings if each.kind is AuditKind.INDEX_ENTRY]
    command = re.findall("`stratalog ([^`]+)`", finding.remedy)[0].split()

    assert main.run(command) == 0

    assert not [each for each in audit([str(root)]).findings if each.kind is AuditKind.INDEX_ENTRY]


def test_the_log_of_the_metadata_is_said_to_be_the_broker_s_own(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    with pytest.raises(UsageError, match="rebuilds its indexes, at each start"):
        indexed(root, names=["__cluster_metadata"])
