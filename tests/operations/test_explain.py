"""The right rule for each of many planted cases."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stratalog.records.build import BatchOptions, Record, build_batch
from tests.cli.explaining import DAY, ages, explain
from tests.cli.planting import SET_SIZE, Planted
from tests.log.model import NOW


@dataclass(frozen=True, kw_only=True)
class Case:
    """How a log is made, and the rule that must be named for each of its segments."""

    name: str
    settings: dict[str, Any]
    plant: Callable[[Planted], object]
    retention: list[str]
    compaction: list[str] | None = None
    checkpoint: int | None = None
    words: tuple[str, ...] = ()
    facts: dict[int, dict[str, object]] = field(default_factory=dict)


def records(count: int, **options: Any) -> Callable[[Planted], object]:
    return lambda planted: planted.fill("t", count, **options)


def with_start(offset: int) -> Callable[[Planted], object]:
    return lambda planted: planted.fill("t", 15).increment_log_start_offset(offset)


def with_empty_active(planted: Planted) -> None:
    planted.fill("t", 5, timestamp=NOW - 2 * DAY).roll()


def with_open_transaction(planted: Planted) -> None:
    planted.fill("t", 5)
    log = planted.log("t")
    options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_as_leader(build_batch([Record(0, NOW, b"k", b"open")], options), leader_epoch=0)
    planted.fill("t", 9)


COMPACT = {"cleanup.policy": "compact"}
WEEK = {"retention.ms": 7 * DAY}
FOREVER = {"retention.ms": -1}
CASES = [
    Case(
        name="too old",
        settings=WEEK,
        plant=ages(9, 8, 1),
        retention=["retention.ms"] * 2 + ["not old enough"],
    ),
    Case(
        name="young, and when it goes",
        settings=WEEK,
        plant=ages(3, 1),
        retention=["not old enough"] * 2,
        facts={0: {"due_ms": NOW + 4 * DAY + 1}, 1: {"due_ms": NOW + 6 * DAY + 1}},
    ),
    Case(
        name="a timestamp in the future",
        settings=WEEK,
        plant=ages(-0.01, 20, 20),
        retention=["future timestamp", "an older segment stays", "an older segment stays"],
        facts={0: {"blocked_by": None}, 1: {"blocked_by": 0}, 2: {"blocked_by": 0}},
        words=("in the future", "segment 0 is kept longer"),
    ),
    Case(
        name="an old segment behind a younger one",
        settings=WEEK,
        plant=ages(1, 20, 20),
        retention=["not old enough", "an older segment stays", "an older segment stays"],
        words=("segment 0 is kept longer",),
    ),
    Case(
        name="larger than retention.bytes",
        settings={**FOREVER, "retention.bytes": 10 * SET_SIZE},
        plant=records(15),
        retention=["retention.bytes", "below retention.bytes", "below retention.bytes"],
    ),
    Case(
        name="smaller than retention.bytes",
        settings={**FOREVER, "retention.bytes": 12 * SET_SIZE},
        plant=records(15),
        retention=["below retention.bytes"] * 3,
        facts={0: {"growth_bytes": 2 * SET_SIZE}},
    ),
    Case(
        name="size goes before time",
        settings={**WEEK, "retention.bytes": 10 * SET_SIZE},
        plant=ages(9, 8, 1),
        retention=["retention.bytes", "retention.ms", "not old enough"],
    ),
    Case(name="no limits", settings=FOREVER, plant=ages(99, 50), retention=["no limit"] * 2),
    Case(
        name="below the log's start",
        settings=FOREVER,
        plant=with_start(12),
        retention=["log start", "log start", "no limit"],
    ),
    Case(name="start inside a segment", settings=FOREVER, plant=with_start(3), retention=["no limit"] * 3),
    Case(
        name="not replicated yet",
        settings=WEEK,
        plant=records(15, timestamp=NOW - 20 * DAY, high_watermark=7),
        retention=["retention.ms", "high watermark", "high watermark"],
        words=(
            "which is 7 in replication-offset-checkpoint",
            "at least 10, it is deleted: its newest record has the timestamp",
        ),
        facts={
            0: {"if_replicated": None},
            1: {"goes": False},
            2: {"goes": False},
        },
    ),
    Case(
        name="an empty active segment",
        settings=WEEK,
        plant=with_empty_active,
        retention=["not old enough", "empty and active"],
    ),
    Case(
        name="no policy at all",
        settings={"cleanup.policy": "", "retention.ms": 1},
        plant=ages(99),
        retention=["cleanup.policy"],
        words=("cleanup.policy is empty",),
    ),
    Case(
        name="no timestamps: the file's time counts",
        settings=WEEK,
        plant=records(10, timestamp=-1),
        retention=["not old enough"] * 2,
        facts={0: {"is_file_time": True}},
        words=("no record has a timestamp",),
    ),
    Case(
        name="compacted and dirty",
        settings=COMPACT,
        plant=records(15),
        retention=["cleanup.policy"] * 3,
        compaction=["dirty", "dirty", "active segment"],
    ),
    Case(
        name="compacted and clean enough",
        settings=COMPACT,
        plant=records(25),
        checkpoint=15,
        retention=["cleanup.policy"] * 5,
        compaction=["clean"] * 3 + ["min.cleanable.dirty.ratio", "active segment"],
        words=("0.25 of the log is dirty, the limit is 0.50",),
    ),
    Case(
        name="compacted and clean",
        settings=COMPACT,
        plant=records(15),
        checkpoint=10,
        retention=["cleanup.policy"] * 3,
        compaction=["clean", "clean", "active segment"],
    ),
    Case(
        name="within min.compaction.lag.ms",
        settings={**COMPACT, "min.compaction.lag.ms": 2 * DAY},
        plant=ages(5, 1, 1),
        retention=["cleanup.policy"] * 3,
        compaction=["dirty", "min.compaction.lag.ms", "active segment"],
    ),
    Case(
        name="past max.compaction.lag.ms",
        settings={**COMPACT, "max.compaction.lag.ms": 2 * DAY, "segment.ms": 99 * DAY},
        plant=ages(1, 1, 1, 5, 1),
        checkpoint=15,
        retention=["cleanup.policy"] * 5,
        compaction=["clean"] * 3 + ["max.compaction.lag.ms", "active segment"],
    ),
    Case(
        name="an open transaction",
        settings=COMPACT,
        plant=with_open_transaction,
        retention=["cleanup.policy"] * 3,
        compaction=["dirty", "last stable offset", "active segment"],
    ),
    Case(
        name="a high watermark that nobody has written down",
        settings=COMPACT,
        plant=records(15, high_watermark=0),
        checkpoint=5,
        retention=["high watermark"] * 3,
        compaction=["clean", "last stable offset", "active segment"],
    ),
    Case(
        name="min.compaction.lag.ms of a segment that was begun",
        settings={**COMPACT, "min.compaction.lag.ms": 2 * DAY},
        plant=ages(5, 1, 1),
        checkpoint=7,
        retention=["cleanup.policy"] * 3,
        compaction=["clean", "min.compaction.lag.ms", "active segment"],
    ),
    Case(
        name="compact,delete: both answers",
        settings={"cleanup.policy": "compact,delete", **WEEK},
        plant=ages(9, 1, 1),
        retention=["retention.ms", "not old enough", "not old enough"],
        compaction=["dirty", "dirty", "active segment"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_right_rule_is_named(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Planted(tmp_path, t=case.settings) as planted:
        case.plant(planted)
    if case.checkpoint is not None:
        planted.set_cleaner_checkpoint(t=case.checkpoint)
    for path in (planted.data / "t-0").iterdir():
        os.utime(path, (NOW / 1000, NOW / 1000))
    before = planted.contents()

    assert explain(planted, "--topic", "t", "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    segments = partition["segments"]
    assert [segment["rule"] for segment in segments] == case.retention
    compaction = [None if found["compaction"] is None else found["compaction"]["rule"] for found in segments]
    assert compaction == (case.compaction or [None] * len(segments))
    for index, expected in case.facts.items():
        assert {name: segments[index][name] for name in expected} == expected
    said = " ".join(found["why"] + str(found["compaction"]) for found in segments)
    assert all(words in said for words in case.words)
    assert planted.contents() == before


def test_there_are_twenty_cases_and_more() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 20


def test_records_that_have_a_timestamp_are_not_said_to_have_none_while_their_index_has_no_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker indexes every 4096 bytes: a young segment's time index is empty, and preallocated."""
    with Planted(tmp_path, t={**WEEK, "internal.segment.bytes": 1 << 20}) as planted:
        planted.fill("t", 20, timestamp=NOW - DAY)
        planted.fill("t", 1, timestamp=NOW - 3 * DAY)

        assert explain(planted, "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    (segment,) = partition["segments"]
    assert segment["largest_timestamp"] == NOW - DAY
    assert not segment["is_file_time"]
    assert "its newest record has the timestamp" in segment["why"]


def test_a_newest_segment_is_as_old_as_its_records_and_not_as_its_last_index_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**WEEK, "internal.segment.bytes": 1 << 20, "index.interval.bytes": 2 * SET_SIZE}
    with Planted(tmp_path, t=settings) as planted:
        planted.fill("t", 4, timestamp=NOW - 5 * DAY)
        planted.fill("t", 1, timestamp=NOW - DAY)

        assert explain(planted, "--json") == 0

    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    (segment,) = partition["segments"]
    assert segment["largest_timestamp"] == NOW - DAY


@pytest.mark.parametrize("garbage", [b"", b"\x00\x00\x01\x8b" + b"\x01" * 8, b"\x7f" * 24])
def test_a_time_index_that_is_not_of_these_records_is_not_believed_in_the_newest_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], garbage: bytes
) -> None:
    with Planted(tmp_path, t={**WEEK, "internal.segment.bytes": 1 << 20}) as planted:
        planted.fill("t", 20, timestamp=NOW - DAY)
    (planted.data / "t-0" / f"{0:020d}.timeindex").write_bytes(garbage)

    assert explain(planted, "--json") == 0

    (segment,) = json.loads(capsys.readouterr().out)["partitions"][0]["segments"]
    assert segment["largest_timestamp"] == NOW - DAY


@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_what_a_running_broker_deletes_next_is_not_said_to_stay_because_of_an_old_high_watermark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_checkpointed: bool
) -> None:
    with Planted(tmp_path, t=WEEK) as planted:
        planted.fill("t", 15, timestamp=NOW - 20 * DAY)
        if is_checkpointed:  # as it was some seconds ago
            (planted.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 5\n")

        assert explain(planted, "--json") == 0
        segments = json.loads(capsys.readouterr().out)["partitions"][0]["segments"]
        deleted = planted.log("t").delete_old_segments()  # what the broker does next

    depending = segments[1:] if is_checkpointed else segments
    assert [found["if_replicated"]["goes"] for found in depending] == [True] * len(depending)
    assert {found["if_replicated"]["rule"] for found in depending} == {"retention.ms"}
    assert len(deleted) == 3
    words = (
        "which is 5 in replication-offset-checkpoint"
        if is_checkpointed
        else "has no high watermark for its log"
    )
    assert words in depending[0]["why"]
    assert "nothing above" not in depending[0]["why"]


def test_what_the_cleaner_does_next_depends_on_the_high_watermark_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t=COMPACT) as planted:
        planted.fill("t", 15)

        assert explain(planted, "--json") == 0

    segments = json.loads(capsys.readouterr().out)["partitions"][0]["segments"]
    assert [found["compaction"]["rule"] for found in segments] == [
        "last stable offset",
        "last stable offset",
        "active segment",
    ]
    assert [found["compaction"]["if_replicated"] for found in segments] == ["dirty", "dirty", None]
