"""The estimate of a partition as a task: it can be sent away, and its result can come back."""

from __future__ import annotations

import pickle
from pathlib import Path

from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.tally import Tally
from stratalog.operations.estimate_task import EstimateTask, estimate_partition
from stratalog.operations.looking import LookedAt
from tests.cli.planting import SET_SIZE, Planted
from tests.log.model import NOW


def task_of(planted: Planted) -> EstimateTask:
    disk, root = DiskReader(), str(planted.data)
    known = KnownTopics(disk, [root], TopicSources(topic_settings=planted.settings.read_text()))
    looked_at = LookedAt(disk, root, known)
    (found,) = looked_at.partitions
    return EstimateTask(
        directory=root,
        facts=looked_at.facts_of(found),
        now=NOW,
        tallies=(Tally(),),
        map_size=24_000,
        map_load_factor=0.9,
        draws=None,
        seed=0,
        work_dir=None,
    )


def test_a_task_and_its_result_travel(tmp_path: Path) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        planted.fill("t", 21, keys=3)

    task = pickle.loads(pickle.dumps(task_of(planted)))
    estimate, (keys,) = pickle.loads(pickle.dumps(estimate_partition(DiskReader(), task)))

    # Of the first twenty records, in whole segments, three stay.
    assert (estimate.freed, estimate.records_read, estimate.records_kept) == (17 * SET_SIZE, 20, 3)
    assert {(each.key, each.versions) for each in keys.largest("versions", 9)} == {
        (b"0", 7),
        (b"1", 7),
        (b"2", 6),
    }


def test_a_log_that_cannot_be_read_is_an_estimate_with_an_error(tmp_path: Path) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact"}) as planted:
        planted.fill("t", 21, keys=3)
    log = planted.data / "t-0" / f"{5:020d}.log"
    log.write_bytes(b"\0" * log.stat().st_size)

    estimate, _ = estimate_partition(DiskReader(), task_of(planted))

    assert f"{log.name} at byte 0" in str(estimate.error)
