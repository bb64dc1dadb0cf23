"""What a strip shows of a partition, beside what Kafka has in its files."""

from __future__ import annotations

import json
from pathlib import Path

from stratalog.directory.known_topics import TopicSources
from stratalog.operations.audit.audit import AuditRequest, audit
from stratalog.operations.audit.page.strips import PartitionStrip
from stratalog.operations.explain import Explanation
from stratalog.operations.explain_report import PartitionAnswers
from tests.fixtures.catalog import log_dirs, partitions
from tests.manager.running import fixture_copy
from tests.operations.audit.page.example import NOW, SETTINGS, example_report, lose_a_batch, write_logs


def strips(*roots: Path) -> dict[str, PartitionStrip]:
    found = audit(roots, mapped=True).map
    assert found is not None
    return {strip.name: strip for strip in found.strips}


def test_segments_have_the_offsets_and_times_that_kafka_reads() -> None:
    for partition in partitions("4.3.1", "clean"):
        if partition.name == "rolled-0":
            found = strips(partition.path.parent)["rolled-0"]
            for bar, log in zip(found.segments, partition.logs, strict=True):
                expected = [*partition.batches(log)]
                assert (bar.base_offset, bar.last_offset) == (int(log.stem), expected[-1]["lastOffset"])
                assert bar.max_timestamp == max(batch["maxTimestamp"] for batch in expected)
                assert bar.first_timestamp == min(batch["baseTimestamp"] for batch in expected)
                assert (bar.size, bar.batches_count) == (log.stat().st_size, len(expected))


def test_epochs_are_those_of_the_brokers_own_file() -> None:
    (root,) = log_dirs("4.3.1", "clean")
    found = strips(root)

    for name in ("rolled-0", "idempotent-0", "txn-0"):
        lines = (root / name / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        said = {tuple(map(int, line.split())) for line in lines}
        assert {tuple(entry) for entry in found[name].epochs} <= said
        assert found[name].epochs


def test_marks_are_those_of_the_checkpoints() -> None:
    (root,) = log_dirs("4.3.1", "clean")

    assert strips(root)["trimmed-0"].marks.log_start_offset == 17
    assert strips(root)["rolled-0"].marks.recovery_point == 80


def test_an_open_transaction_is_shown_since_its_first_offset(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_logs(root)
    report = example_report(root, "payments")

    (hanging,) = [each for each in report.findings if each.kind.value == "hanging-transaction"]
    assert report.map is not None
    (txn,) = [txn for strip in report.map.strips for txn in strip.open_txns]
    assert (txn.producer_id, txn.first_offset, txn.is_coordinated) == (4711, hanging.offset, False)


def test_lost_and_removed_offsets_are_told_apart(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_logs(root)
    lose_a_batch(sorted((root / "orders-0").glob("*.log"))[3])
    report = example_report(root)
    assert report.map is not None

    gaps = {strip.name: strip.gaps for strip in report.map.strips}

    (lost,) = gaps["orders-0"]
    (finding,) = [each for each in report.findings if each.kind.value == "lost-offsets"]
    assert (lost.first, lost.is_lost) == (finding.offset, True)
    assert gaps["customers-0"]
    assert not any(gap.is_lost for gap in gaps["customers-0"])
    assert not gaps["orders-1"]


def test_the_horizon_is_where_explain_says_that_segments_go(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_logs(root)
    sources = TopicSources(topic_settings=json.dumps(SETTINGS))
    explained = Explanation(directories=[str(root)], sources=sources, clock=lambda: NOW).run()
    report = example_report(root)
    assert report.map is not None
    horizons = {strip.name: strip.horizon for strip in report.map.strips}

    for partition in explained.partitions:
        assert isinstance(partition, PartitionAnswers)
        due = [each.decision for each in partition.segments if each.decision.is_deleted]
        horizon = horizons[str(partition.name)]
        assert horizon.offset == (due[-1].end_offset if due else None)
        assert horizon.due_size == sum(each.segment.size for each in due)
    assert horizons["orders-0"].offset is not None
    assert horizons["orders-0"].time_ms == NOW - int(SETTINGS["orders"]["retention.ms"])
    assert horizons["customers-0"].time_ms is None


def test_without_known_settings_no_horizon_is_claimed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write_logs(root)
    report = AuditRequest(directories=[str(root)], is_mapped=True, clock=lambda: NOW).run()
    assert report.map is not None

    for strip in report.map.strips:
        assert strip.horizon.offset is None
        assert "its settings are not known" in (strip.horizon.refusal or "")


def test_an_audit_after_another_shows_the_epochs_of_the_file(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    first = audit([root])

    found = audit([root], baseline=first.audited, mapped=True).map

    assert found is not None
    (strip,) = [each for each in found.strips if each.name == "idempotent-0"]
    assert [tuple(entry) for entry in strip.epochs] == [(0, 0), (2, 42), (4, 52)]
    assert strip.open_txns == ()
