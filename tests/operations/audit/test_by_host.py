"""Each host audits its own directories, and one report has the findings of all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stratalog.errors import UsageError
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.audit import audit
from stratalog.operations.audit.audit_report import AuditReport
from stratalog.operations.audit.by_host import audit_by_host
from stratalog.operations.report import Status
from tests.engine.on_hosts import Hosts
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import DAMAGES
from tests.operations.audit.test_audit import Unlistable, serious


def of_hosts(
    *places: str,
    hosts: tuple[str, ...] = ("b1", "b2"),
    disk: DiskReader | None = None,
    **asked: object,
) -> AuditReport:
    engine = Hosts(*hosts, disk=disk)
    return audit_by_host(engine, places, now=2_000_000_000_000, **asked)  # type: ignore[arg-type]


def test_the_findings_are_those_of_audits_on_each_host_and_name_it(tmp_path: Path) -> None:
    first, second = fixture_copy("clean", tmp_path / "first"), fixture_copy("clean", tmp_path / "second")
    DAMAGES[0].plant(first)
    DAMAGES[1].plant(second)

    report = of_hosts(f"b1:{first}", f"b2:{second}")

    for host, root in (("b1", first), ("b2", second)):
        own = audit([root]).findings
        found = [each for each in report.findings if each.directory.startswith(f"{host}:")]
        assert {(each.kind, each.partition, each.file, each.position) for each in found} == {
            (each.kind, each.partition, each.file, each.position) for each in own
        }
        assert all(each.directory == f"{host}:{root}" for each in found)
        assert all(each.remedy.startswith(f"On {host}: ") for each in found if each.remedy)
    both = audit([first]), audit([second])
    assert report.totals_.records == sum(each.totals_.records for each in both)
    assert [topic.topic for topic in report.topics] == [topic.topic for topic in both[0].topics]
    assert report.status is Status.FINDINGS


def test_a_directory_on_no_host_is_a_finding_with_exit_status_3(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "first")

    report = of_hosts(f"b1:{root}", f"b9:{root}", "/nowhere/at/all")

    unplaced = [each for each in report.findings if "The hosts are: b1, b2." in each.words]
    assert {each.directory for each in unplaced} == {f"b9:{root}", "/nowhere/at/all"}
    assert report.status is Status.FAILED
    assert "b2 has none of these directories." in report.notes
    healthy = replace(report, findings=tuple(each for each in report.findings if each not in unplaced))
    assert healthy.status is Status.FINE


def test_a_topic_may_be_on_one_host_only(tmp_path: Path) -> None:
    first, second = fixture_copy("clean", tmp_path / "first"), tmp_path / "second"
    second.mkdir()
    (second / "meta.properties").write_text((first / "meta.properties").read_text())

    report = of_hosts(f"b1:{first}", f"b2:{second}", topics=["rolled"])

    assert [topic.topic for topic in report.topics] == ["rolled"]
    assert report.status is Status.FINE


def test_a_mistyped_topic_was_called_healthy(tmp_path: Path) -> None:
    first, second = fixture_copy("clean", tmp_path / "first"), fixture_copy("clean", tmp_path / "second")
    places = [f"b1:{first}", f"b2:{second}"]

    with pytest.raises(UsageError, match=r"^rolld: no host has such a topic or partition in"):
        of_hosts(*places, topics=["rolled", "rolld"])


def test_a_topic_on_no_host_is_a_finding_where_a_host_could_not_be_asked(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "first")

    report = of_hosts(f"b1:{root}", f"b9:{root}", topics=["rolled", "rolld"])

    assert report.status is Status.FAILED
    assert [topic.topic for topic in report.topics] == ["rolled"]
    assert any(
        "rolld: no host that could be asked has such a topic" in each.words for each in report.findings
    )


@pytest.mark.parametrize("host", ["b1:", ""])
def test_one_disk_that_cannot_be_read_failed_its_whole_host(tmp_path: Path, host: str) -> None:
    root, gone = fixture_copy("clean", tmp_path / "first"), tmp_path / "gone"
    places = [f"b1:{root}", f"{host}{gone}"]

    report = of_hosts(*places, hosts=("b1",), disk=Unlistable(gone), topics=["rolled"])

    found = serious(report.findings)
    assert [(each.kind.value, each.directory) for each in found] == [("unreadable", f"b1:{gone}")]
    assert report.status is Status.FAILED
    assert [topic.topic for topic in report.topics] == ["rolled"]


def test_a_topic_that_may_be_on_a_disk_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    root, gone = fixture_copy("clean", tmp_path / "first"), tmp_path / "gone"
    places = [f"b1:{root}", f"b1:{gone}"]

    report = of_hosts(*places, hosts=("b1",), disk=Unlistable(gone), topics=["elsewhere"])

    assert report.status is Status.FAILED
    assert {each.kind.value for each in serious(report.findings)} == {"unreadable"}
    assert any("elsewhere: no host that could be asked" in each.words for each in report.findings)
