"""The topics and partitions that a request names."""

from __future__ import annotations

from pathlib import Path

from tests.cli.planting import Planted
from tests.cli.retaining import run
from tests.log.model import NOW


def test_only_the_topics_that_are_named_are_touched(tmp_path: Path) -> None:
    with Planted(tmp_path, orders={"retention.ms": 0}, events={"retention.ms": 0}) as planted:
        planted.fill("orders", 6, timestamp=NOW - 10)
        planted.fill("events", 6, timestamp=NOW - 10)

    assert run(planted, "--topic", "events") == 0

    assert planted.files("orders", ".deleted") == []
    assert planted.files("events", ".log.deleted")


def test_a_name_that_is_not_there_is_wrong_usage(planted: Planted) -> None:
    assert run(planted, "--topic", "nothing") == 2
