"""Recovers or compacts a directory on a cluster, in a process that a test kills: arguments WHAT ROOT MASTER.

Speculation is on, so tasks run twice beside each other, and a third of the first attempts fail.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from stratalog.config import ManagerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.directory.session import Unclean
from stratalog.engine.engine import Engine, Result, Task, TaskFunction, TaskOutcome
from stratalog.engine.progress import OnProgress
from stratalog.files.reading import DiskReader
from stratalog.operations.compact import Compaction
from stratalog.operations.maintaining import Maintenance
from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session
from tests.log.model import NOW
from tests.operations.recovering import left_by

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.task.maxFailures": "8",
}
FAILED = 1 / 3


class Flaky(SparkEngine):
    """Some first attempts of tasks end their worker before they return anything."""

    def run(
        self,
        function: TaskFunction[Task, Result],
        tasks: Sequence[Task],
        *,
        sizes: Sequence[int] | None = None,
        paths: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
        is_wanted: Callable[[int], bool] | None = None,
    ) -> Generator[TaskOutcome[Task, Result], None, None]:
        def flaky(disk: DiskReader, task: Task) -> Result:
            from pyspark import TaskContext

            context = TaskContext.get()
            result = function(disk, task)
            if context is not None and context.attemptNumber() == 0 and random.random() < FAILED:
                os._exit(1)
            return result

        return super().run(
            flaky, tasks, sizes=sizes, paths=paths, on_progress=on_progress, is_wanted=is_wanted
        )


def operate(what: str, root: Path, engine: Engine | None) -> None:
    """Do it; `None` is threads of this process."""
    if what == "recover":
        left_by(engine, root, [root / "data"], scan_all=True)
        return
    Maintenance(
        directories=[str(root / "data")],
        sources=TopicSources(topic_settings=(root / "topics.json").read_text()),
        unclean=Unclean.RECOVER,
        clock=lambda: NOW,
    ).run(Compaction(ManagerConfig(), engine=engine))


if __name__ == "__main__":
    _, asked, home, master = sys.argv
    with session("operating", master=master, settings=SETTINGS) as spark:
        operate(asked, Path(home), Flaky(spark))
