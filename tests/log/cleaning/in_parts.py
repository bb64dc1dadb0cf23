"""Runs the parts of a compaction one after the other, as a cluster would on its machines.

What goes to a task and comes back is pickled, and keys are aggregated in plain Python.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np

from stratalog.files.disk import Disk
from stratalog.log.cleaning.distributed import (
    CleaningPlan,
    RewrittenGroup,
    prove_group,
    read_keys,
    rewrite_group,
)
from stratalog.log.cleaning.transactions import OpenData, SegmentData


class PartsHere:
    """As `PartsRunner` says. Each group is rewritten `attempts` times, and the last result counts."""

    def __init__(self, attempts: int = 1) -> None:
        self._attempts = attempts
        self._records: list[tuple[tuple[int, int], int, int]] = []  # key, offset, group
        self._newest: dict[tuple[int, int], int] = {}

    def read_keys(self, plan: CleaningPlan) -> list[SegmentData]:
        sent = pickle.loads(pickle.dumps(plan))
        found = []
        for number in range(plan.segments_count):
            keys = read_keys(Disk(), sent, number)
            while True:
                try:
                    some = next(keys)
                except StopIteration as ended:
                    found.append(pickle.loads(pickle.dumps(ended.value)))
                    break
                rows = zip(
                    map(tuple, some.hashes.tolist()),
                    some.offsets.tolist(),
                    some.is_version.tolist(),
                    strict=True,
                )
                for key, offset, is_version in rows:
                    self._records.append((key, offset, plan.group_of(number)))
                    if is_version:
                        self._newest[key] = max(offset, self._newest.get(key, -1))
        return found

    def rewrite(self, plan: CleaningPlan, before: Sequence[OpenData]) -> list[RewrittenGroup]:
        sent, open_data = pickle.loads(pickle.dumps((plan, list(before))))
        done = []
        for number in range(len(plan.groups)):
            replaced = [
                offset
                for key, offset, group in self._records
                if group == number and offset < self._newest.get(key, -1)
            ]
            for _ in range(self._attempts):
                found = rewrite_group(Disk(), sent, number, open_data[number], np.array(replaced, np.int64))
            done.append(pickle.loads(pickle.dumps(found)))
        return done

    def prove(self, _plan: CleaningPlan, groups: Sequence[RewrittenGroup]) -> None:
        for group in groups:
            prove_group(Disk(), pickle.loads(pickle.dumps(group)))
