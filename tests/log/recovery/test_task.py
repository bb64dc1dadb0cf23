"""Scans as values that travel."""

from __future__ import annotations

import pickle

from stratalog.log.recovery.task import run_scan
from tests.log.recovery.directory import ONE, Directory


def test_only_what_a_snapshot_inside_a_segment_does_not_know_is_read(pairs: Directory) -> None:
    snapshot = pairs.file(8, ".snapshot").read_bytes()
    pairs.delete(8, ".snapshot")
    pairs.write(7, ".snapshot", snapshot)

    survey = pairs.survey(recovery_point=9)

    assert [(task.base_offset, task.start_position) for task in survey.scans] == [(6, ONE), (8, 0)]


def test_tasks_and_results_travel(pairs: Directory) -> None:
    for task in pairs.survey().scans:
        sent = pickle.loads(pickle.dumps(task))
        result = run_scan(pairs.disk, sent)

        assert sent == task
        assert pickle.loads(pickle.dumps(result)) == result


def test_an_index_that_is_on_disk_already_is_not_carried_around(pairs: Directory) -> None:
    (*_, last) = pairs.survey(recovery_point=9).scans

    result = run_scan(pairs.disk, last)

    assert (result.index.data, result.time_index.data) == (None, None)
    assert (result.scan.offset_index, result.scan.time_index) == (b"", b"")
