"""Partitions whose folder is gone, or has no segment left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.operations.audit.audit import audit
from tests.directory.refused import with_second
from tests.manager.running import fixture_copy
from tests.operations.audit.test_audit import serious

KEPT = "partition.metadata"


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_directory_was_healthy_although_a_partition_was_gone(state: str, tmp_path: Path) -> None:
    root = fixture_copy(state, tmp_path / "data")
    shutil.rmtree(root / "codecs-0")

    report = audit([root], mapped=True)

    (found,) = serious(report.findings)
    assert (found.kind.value, found.partition, found.offset) == ("lost-partition", "codecs-0", 120)
    assert found.words == "Its folder is gone, although recovery-point-offset-checkpoint says offset 120."
    assert report.status == 1
    assert "lost-partition" in report.to_html()


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_directory_was_healthy_although_a_folder_was_emptied(state: str, tmp_path: Path) -> None:
    root = fixture_copy(state, tmp_path / "data")
    for path in (root / "codecs-0").iterdir():
        if path.name != KEPT:
            path.unlink()

    (found,) = serious(audit([root]).findings)

    assert (found.kind.value, found.partition, found.offset) == ("lost-partition", "codecs-0", 120)
    assert found.words == "It has no segment, although recovery-point-offset-checkpoint says offset 120."


def test_only_the_named_topics_are_gone(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    shutil.rmtree(root / "codecs-0")

    assert serious(audit([root], topics=["rolled"]).findings) == []


def test_a_partition_that_was_moved_to_the_other_directory_is_not_gone(tmp_path: Path) -> None:
    first = fixture_copy("clean", tmp_path / "data")
    second = with_second(first)
    (first / "codecs-0").rename(second / "codecs-0")

    kinds = {found.kind.value for found in audit([first, second]).findings}

    assert "lost-partition" not in kinds
