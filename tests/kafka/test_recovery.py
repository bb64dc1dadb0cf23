"""Our recovery of a partition against Kafka's own: a killed broker's files, damaged by seed, in two copies.

Kafka loads one copy with UnifiedLog and closes it cleanly, we recover the other. Log, indexes, epoch file and
the set of files are then the same bytes, snapshots the same entries; what is meant to differ is in
recovery_compare.py and docs/compatibility.md. Then Kafka opens what we left as after a clean stop: it finds
the same marks, epochs and producers as in its own, and has nothing to repair.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import profile
from tests.kafka.log_oracle import Json, LogOracle
from tests.kafka.our_recovery import opens_as_stopped, we_recover
from tests.kafka.recovery_cases import batch_positions, logs_in, make_case
from tests.kafka.recovery_compare import (
    copied,
    differences,
    kafka_opens,
    kafka_rebuilds,
    kafka_recovers,
    without_stale_tail,
)
from tests.kafka.recovery_quarry import Quarry
from tests.kafka.test_recovery_differences import written_twice

CASES = 660
CASES_PER_BROKER = 132

Quarries = Callable[[int], Quarry]


@pytest.fixture(scope="module")
def compared() -> list[int]:
    """The seeds of which Kafka's recovery has made something to compare with."""
    return []


@pytest.mark.parametrize("seed", range(profile.examples(CASES)))
def test_a_damaged_partition_is_left_as_kafkas_recovery_leaves_it(
    log_oracle: LogOracle, quarries: Quarries, compared: list[int], tmp_path: Path, seed: int
) -> None:
    now_ms = int(time.time() * 1000)
    quarry = quarries(seed // CASES_PER_BROKER)
    case = make_case(quarry, seed, tmp_path / "case", log_oracle)
    theirs, ours = copied(case, tmp_path / "kafka"), copied(case, tmp_path / "ours")

    kafka = kafka_recovers(log_oracle, theirs, now_ms)
    plan = we_recover(ours, now_ms)

    if kafka.has_lost_its_end or kafka.has_begun_anew:
        case = without_stale_tail(log_oracle, case, tmp_path / "stale", now_ms)
        kafka = kafka_recovers(log_oracle, copied(case, tmp_path / "again"), now_ms)
    if kafka.refusal is not None:
        opens_as_stopped(log_oracle, ours, plan, now_ms)
        return
    rebuilt = kafka_rebuilds(log_oracle, case, kafka, tmp_path / "rebuilt", now_ms)
    assert not differences(case, ours.directory, kafka.directory, rebuilt), str(case)
    assert plan.log_end_offset == kafka.marks["logEnd"], str(case)
    compared.append(seed)
    marks = opens_as_stopped(log_oracle, ours, plan, now_ms)
    own = [
        kafka_opens(log_oracle, replace(case, directory=one.directory), one.marks, now_ms).marks
        for one in (kafka, rebuilt)
        if one.refusal is None
    ]
    if rebuilt.refusal is None:
        # Of a damaged segment that counts as flushed the log is the first one's, the producers the second's.
        known, *others = (remembered(one, case.log_start_offset) for one in (marks, *own))
        unknown = [key for key in known if known[key] not in [one.get(key) for one in others]]
        assert not unknown, f"{case}: {unknown}"


@pytest.mark.parametrize("recovery_point", [0, 15, 20])
def test_a_segment_that_is_split_is_recovered_without_the_snapshot_at_its_base(
    log_oracle: LogOracle, tmp_path: Path, recovery_point: int
) -> None:
    """Recovery died with a KeyError: it needed an earlier snapshot than it had read."""
    now_ms = int(time.time() * 1000)
    theirs, ours = written_twice(log_oracle, tmp_path, {"index.interval.bytes": "0"})
    for case in (theirs, ours):
        log = logs_in(case.directory)[-1]
        data = bytearray(log.read_bytes())
        data[batch_positions(bytes(data))[-1] + 3] = 1  # its last batch is 2^32 offsets away
        log.write_bytes(data)
        case.recovery_point = recovery_point
    damaged = copied(ours, tmp_path / "damaged")

    kafka = kafka_recovers(log_oracle, theirs, now_ms)
    plan = we_recover(ours, now_ms)

    assert {path.name for path in damaged.directory.glob("*.snapshot")} >= {
        f"{offset:020d}.snapshot" for offset in (10, 15)
    }
    assert plan.log_end_offset == kafka.marks["logEnd"] == 2**32 + 20
    assert not differences(damaged, ours.directory, theirs.directory, kafka)
    opens_as_stopped(log_oracle, ours, plan, now_ms)


def test_kafka_refuses_few_of_the_cases(compared: list[int]) -> None:
    cases = profile.examples(CASES)
    print(f"{len(compared)} of {cases} cases were compared")

    assert len(compared) >= cases * 0.9


def remembered(marks: Json, log_start_offset: int) -> Json:
    """What a stop keeps: no high watermark, and of each producer the last batch, if it is not deleted.

    How large the segments are is compared with their bytes, and so are those that are empty but not the last:
    we leave one where Kafka leaves none (`_forget_kept_bases` in recovery_compare.py).
    """
    kept = {key: marks[key] for key in ("logStart", "logEnd", "epochs")}
    *older, (last_base, _) = marks["segments"]
    kept["segments"] = [*(base_offset for base_offset, size in older if size), last_base]
    for producer, entry in marks["producers"].items():
        last = entry["batches"][-1:]
        if entry["txn"] >= 0 or any(offset >= log_start_offset for _, offset, _, _ in last):
            kept[f"producer {producer}"] = entry | {"batches": last}
    return kept
