"""An audit finds each of many planted damages, and nothing in what brokers left healthy."""

from __future__ import annotations

import json
import os
import re
from errno import EIO, ENOENT
from pathlib import Path

import pytest

import stratalog
from stratalog.cli import main
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import DiskError, UsageError
from stratalog.files.entries import DirectoryEntry, FileStatus
from stratalog.files.names import OFFSET_CHECKPOINTS
from stratalog.files.reading import DiskReader
from stratalog.operations.audit import audit as audit_module
from stratalog.operations.audit.audit import AuditRequest, audit
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind, Severity
from stratalog.operations.audit.segment_task import AuditedSegment, AuditTask
from stratalog.operations.recover import RecoverOptions, recover
from stratalog.operations.report import Status
from tests.directory.refused import with_second
from tests.fixtures.catalog import log_dirs
from tests.manager.running import contents, fixture_copy
from tests.operations.audit.planting import DAMAGES, PlantedDamage, batches, flip, put

HEALTHY = [(release, state) for release in ("2.8.2", "3.9.2", "4.3.1") for state in ("clean", "killed")]


def serious(findings: tuple[AuditFinding, ...]) -> list[AuditFinding]:
    return [finding for finding in findings if finding.severity is not Severity.NOTE]


@pytest.mark.parametrize("is_deep", [False, True], ids=["headers", "deep"])
@pytest.mark.parametrize(("release", "state"), HEALTHY)
def test_nothing_is_found_in_what_a_broker_left(release: str, state: str, is_deep: bool) -> None:
    (directory,) = log_dirs(release, state)

    report = AuditRequest(directories=[str(directory)], is_deep=is_deep).run()

    assert [finding.words for finding in serious(report.findings)] == []
    assert report.status == 0


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_a_planted_damage_is_found(damage: PlantedDamage, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    damage.plant(root)
    before = contents(root)

    report = AuditRequest(directories=[str(root)], is_deep=damage.deep).run()

    found = {(each.kind.value, each.partition, each.file) for each in report.findings}
    if damage.file or damage.partition:
        assert (damage.kind, damage.partition, damage.file) in found
    else:
        assert damage.kind in {kind for kind, _, _ in found}
    assert contents(root) == before


def test_a_directory_without_meta_properties_was_called_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    other = with_second(root)
    (other / "meta.properties").unlink()
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={root},{other}\n")

    for places in (["--config", str(config)], [str(root), str(other)]):
        assert main.run(["audit", *places, "--json"]) == 1
        audited = json.loads(capsys.readouterr().out)
        assert main.run(["doctor", *places, "--json"]) == 3
        checked = json.loads(capsys.readouterr().out)

        (refusal,) = checked["refusals"]
        (found,) = [each for each in audited["findings"] if each["severity"] == "error"]
        assert (found["directory"], found["file"]) == (str(other), "meta.properties")
        assert (found["words"], found["remedy"]) == (refusal["reason"], refusal["remedy"])


def test_directories_of_two_nodes_are_still_told_apart(tmp_path: Path) -> None:
    roots = [fixture_copy("clean", tmp_path / name) for name in ("one", "two", "three")]
    file = roots[1] / "meta.properties"
    file.write_text(file.read_text().replace("node.id=1", "node.id=2"))
    (roots[2] / "meta.properties").unlink()

    report = AuditRequest(directories=[str(root) for root in roots]).run()

    (found,) = [each for each in serious(report.findings) if each.kind is AuditKind.WILL_NOT_START]
    assert (found.directory, found.file) == (str(roots[2]), "meta.properties")


@pytest.mark.parametrize("data", [bytes(43), b"", None], ids=["zeroed", "empty", "missing"])
def test_a_partition_that_the_cluster_knows_was_called_unknown_because_its_id_was_unreadable(
    data: bytes | None, tmp_path: Path
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    file = root / "rolled-0" / "partition.metadata"
    file.unlink() if data is None else file.write_bytes(data)

    report = AuditRequest(directories=[str(root)]).run()

    (found,) = serious(report.findings)
    assert (found.partition, found.file) == ("rolled-0", "partition.metadata")
    assert found.kind.value == ("missing-topic-id" if data is None else "will-not-start")
    assert "recover --all" in found.remedy
    assert "ove it away" not in found.remedy


def test_a_file_that_is_replaced_between_two_readings_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaner at work: the first look pairs a new index with an old log, the second one does not."""
    root = fixture_copy("killed", tmp_path / "data")
    index = root / "rolled-0" / "00000000000000000020.index"
    right = index.read_bytes()
    index.write_bytes(b"\0\0\0\6" + right[4:])
    real = audit_module.audit_segment

    def read_then_mend(disk: DiskReader, task: AuditTask) -> AuditedSegment:
        found = real(disk, task)
        if task.base_offset == 20 and "rolled" in task.path:
            index.write_bytes(right)
        return found

    monkeypatch.setattr(audit_module, "audit_segment", read_then_mend)

    report = AuditRequest(directories=[str(root)], engine=ThreadEngine(1)).run()

    assert serious(report.findings) == []


def test_damage_in_an_unclean_directory_is_still_there_at_the_second_look(tmp_path: Path) -> None:
    root = fixture_copy("killed", tmp_path / "data")
    flip(root / "rolled-0" / "00000000000000000020.log", 100)

    found = serious(AuditRequest(directories=[str(root)]).run().findings)

    assert [(each.kind.value, each.file, each.position) for each in found] == [
        ("wrong-crc", "00000000000000000020.log", 0)
    ]


def test_one_disk_that_cannot_be_read_does_not_end_the_audit_of_the_others(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    flip(root / "rolled-0" / "00000000000000000020.log", 100)

    report = AuditRequest(
        directories=[str(root), str(tmp_path / "gone")], disk=Unlistable(tmp_path / "gone")
    ).run()

    assert {each.kind.value for each in serious(report.findings)} == {"wrong-crc", "unreadable"}
    assert report.status == 3
    assert "gone" in report.verdict


def test_one_disk_that_cannot_be_read_ended_the_audit_of_a_topic(tmp_path: Path) -> None:
    root, gone = fixture_copy("clean", tmp_path / "data"), tmp_path / "gone"
    directories = [str(gone), str(root)]

    for names, partitions in ((["rolled"], 1), (["rolled", "elsewhere"], 1), (["elsewhere"], 0)):
        report = AuditRequest(directories=directories, names=names, disk=Unlistable(gone)).run()

        found = serious(report.findings)
        assert [(each.kind.value, each.directory) for each in found] == [("unreadable", str(gone))]
        assert (report.status, report.totals()["partitions"]) == (3, partitions)


def test_a_topic_in_none_of_the_disks_that_can_be_read_was_not_said(tmp_path: Path) -> None:
    root, gone = fixture_copy("clean", tmp_path / "data"), tmp_path / "gone"

    report = AuditRequest(
        directories=[str(gone), str(root)], names=["rolled", "elsewhere"], disk=Unlistable(gone)
    ).run()

    assert report.notes[0] == "elsewhere: no directory that could be read has such a topic or partition."
    assert not any("rolled" in note for note in report.notes)
    assert report.notes[0] in report.words()


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_partition_that_was_not_read_was_a_reason_not_to_start(state: str, tmp_path: Path) -> None:
    """Exit status 1 said that everything was looked at; the partition and its segments were counted."""
    root = fixture_copy(state, tmp_path / "data")
    whole = AuditRequest(directories=[str(root)]).run().totals()

    report = AuditRequest(directories=[str(root)], disk=ClosedFolder(root / "rolled-0")).run()

    (found,) = serious(report.findings)
    assert (found.kind, found.partition, found.file) == (AuditKind.UNREADABLE, "rolled-0", "")
    assert report.status is Status.FAILED
    assert report.verdict.startswith("Not everything could be read: rolled-0. ")
    assert report.totals()["partitions"] == whole["partitions"] - 1


def test_a_partition_that_was_deleted_meanwhile_is_no_finding(tmp_path: Path) -> None:
    root = fixture_copy("killed", tmp_path / "data")

    report = AuditRequest(directories=[str(root)], disk=ClosedFolder(root / "rolled-0", ENOENT)).run()

    assert [each for each in serious(report.findings) if each.partition == "rolled-0"] == []


FAR = 0x13F8_1234_5678  # what the first bytes of a damaged base offset make of it


def damage_offset(root: Path, base: int, number: int, offset: int, *, wrong_crc: int | None) -> None:
    """Change the base offset of a batch, and a record of another batch; `root` has rolled-0."""
    log = root / "rolled-0" / f"{base:020d}.log"
    places = [position for position, _ in batches(log.read_bytes())]
    put(log, places[number], ">q", offset)
    if wrong_crc is not None:
        flip(log, places[wrong_crc] + 70)


@pytest.mark.parametrize(
    ("base", "number", "offset", "wrong_crc", "kinds"),
    [
        (20, 2, FAR, None, ["offset-far-ahead"]),
        (20, 2, FAR, 1, ["wrong-crc", "offset-far-ahead"]),
        (20, 2, 45, 1, ["wrong-crc", "offset-far-ahead"]),
        (20, 4, FAR, None, ["offset-far-ahead"]),
        (20, 1, 33, None, ["offset-ahead"]),
        (20, 1, 45, None, ["offset-ahead"]),
        (72, 0, FAR, None, ["offset-far-ahead"]),
        (72, 0, 100, None, ["offset-ahead"]),
    ],
)
def test_one_damaged_base_offset_made_all_batches_and_entries_after_it_wrong(
    base: int, number: int, offset: int, wrong_crc: int | None, kinds: list[str], tmp_path: Path
) -> None:
    """They were 30 errors, and no remedy did what it said."""
    root = fixture_copy("clean", tmp_path / "data")
    damage_offset(root, base, number, offset, wrong_crc=wrong_crc)

    found = serious(AuditRequest(directories=[str(root)]).run().findings)

    assert [each.kind.value for each in found] == kinds
    assert {each.file for each in found} == {f"{base:020d}.log"}
    remedies = {each.remedy for each in found}
    recover([str(root)], RecoverOptions(scan_all=True, salvage=True))
    after = serious(AuditRequest(directories=[str(root)]).run().findings)
    if kinds == ["offset-ahead"]:
        assert all("a recovery cannot repair it" in remedy for remedy in remedies)
        assert after == found
    else:
        assert all("`stratalog recover --all --salvage " in remedy for remedy in remedies)
        assert [each.kind.value for each in after] == ["lost-offsets"]


def test_an_audit_recommended_index_for_a_partition_that_index_refuses(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    damage_offset(root, 20, 2, FAR, wrong_crc=1)
    flip(root / "rolled-0" / f"{0:020d}.index", 7)

    def remedy_for_index() -> str:
        report = AuditRequest(directories=[str(root)]).run()
        (remedy,) = {each.remedy for each in report.findings if each.file.endswith("index")}
        return remedy

    assert remedy_for_index().startswith("Repair the log of this partition first")
    assert main.run(["index", str(root)]) == 3
    recover([str(root)], RecoverOptions(scan_all=True, salvage=True))
    assert remedy_for_index().startswith("Stop the broker and run `stratalog index ")
    assert main.run(["index", str(root)]) == 0
    assert [each.kind.value for each in serious(AuditRequest(directories=[str(root)]).run().findings)] == [
        "lost-offsets"
    ]


class ClosedFolder(DiskReader):
    """A reader that cannot list one directory."""

    def __init__(self, path: Path, number: int = EIO) -> None:
        super().__init__()
        self._bad, self._number = str(path), number

    def list_directory(self, path: str | os.PathLike[str]) -> list[DirectoryEntry]:
        self._refuse(path)
        return super().list_directory(path)

    def _refuse(self, path: str | os.PathLike[str]) -> None:
        if os.fspath(path).startswith(self._bad):
            raise DiskError(path, os.strerror(self._number).lower(), self._number)


class Unlistable(ClosedFolder):
    """A reader for which one directory has EIO, whatever is asked."""

    def status(self, path: str | os.PathLike[str]) -> FileStatus | None:
        self._refuse(path)
        return super().status(path)


class Refused(DiskReader):
    """A reader for which one file has EIO."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._bad = str(path)

    def read_file(self, path: str | os.PathLike[str]) -> bytes | None:
        if os.fspath(path) == self._bad:
            raise DiskError(path, "input/output error", 5)
        return super().read_file(path)


@pytest.mark.parametrize("name", OFFSET_CHECKPOINTS)
def test_no_segment_was_audited_if_one_checkpoint_could_not_be_read(tmp_path: Path, name: str) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    whole = AuditRequest(directories=[str(data)]).run()

    report = AuditRequest(directories=[str(data)], disk=Refused(data / name)).run()

    (found,) = [each for each in report.findings if each.file == name]
    assert (found.kind, found.directory) == (AuditKind.UNREADABLE, str(data))
    assert report.status is Status.FAILED
    assert report.totals()["segments"] == whole.totals()["segments"]
    assert {each for each in report.findings if each is not found} == {*whole.findings}


def test_directories_that_were_formatted_and_never_started_are_healthy(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"value")
    stratalog.format_directories([tmp_path])

    assert serious(audit([tmp_path]).findings) == []


def test_topics_are_named_or_refused(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    report = audit([root], topics=["rolled"])

    assert (report.totals()["partitions"], report.totals()["segments"]) == (1, 5)
    with pytest.raises(UsageError, match="rolle: there is no such topic"):
        audit([root], topics=["rolle"])


def test_an_audit_after_another_reads_only_what_is_new(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    log = root / "rolled-0" / "00000000000000000072.log"
    log.with_suffix(".timeindex").write_bytes(b"")
    whole = log.read_bytes()
    last = [*batches(whole)][-1]
    log.write_bytes(whole[: last[0]])
    first = audit([root], topics=["rolled"])
    log.write_bytes(whole)
    flip(log, last[0] + 70)

    second = audit([root], topics=["rolled"], baseline=first.audited)

    assert second.totals()["bytes_read"] == last[1]
    assert "wrong-crc" in {each.kind.value for each in serious(second.findings)}
    assert "what an earlier audit has read was left out" in second.verdict


def test_an_index_that_was_replaced_since_the_last_audit_is_read_again(tmp_path: Path) -> None:
    """Files that this process keeps open have no part in it: beside a cleaner they are those of before."""
    root = fixture_copy("clean", tmp_path / "data")
    index = root / "rolled-0" / "00000000000000000020.timeindex"
    assert audit([root]).status == 0
    other = tmp_path / "other"
    other.write_bytes(index.read_bytes()[:12])
    other.replace(index)

    found = serious(audit([root]).findings)

    assert [finding.kind.value for finding in found] == ["time-index-end"]


def test_the_example_of_the_page_about_audits_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture_copy("clean", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[3] / "docs" / "audit.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}

    exec(compile(block, "docs/audit.md", "exec"), names)

    assert str(names["page"]).startswith("<!DOCTYPE html>")
