"""Topic ids that are missing, and topics that the cluster does not know."""

from __future__ import annotations

from pathlib import Path

from tests.directory.recovery.recovering import recover_one


def test_a_missing_topic_id_is_written_where_the_cluster_knows_it(killed: Path) -> None:
    file = killed / "codecs-0" / "partition.metadata"
    before = file.read_bytes()
    file.unlink()

    report = recover_one(killed)

    assert file.read_bytes() == before
    assert [problem.name for problem in report.problems] == ["codecs-0"]


def test_a_topic_that_the_cluster_does_not_know_is_reported(killed: Path) -> None:
    (killed / "codecs-0").rename(killed / "unknown-0")
    (killed / "unknown-0" / "partition.metadata").unlink()

    report = recover_one(killed)

    assert not (killed / "unknown-0" / "partition.metadata").exists()
    assert "-stray" in report.problems[0].consequence
