"""`SparkEngine` runs a job's tasks on Spark's executors.

The function that is mapped contains all tasks, in packs. Spark only distributes numbers, one in each of its
partitions: each Spark task runs the pack with its number. So there are exactly as many Spark tasks as packs,
without a shuffle. The engine needs only `mapInArrow`, which Spark Connect has too, unlike RDDs.

A Spark task costs 11 to 25 ms before it does anything, so there are a few Spark tasks for each core, and each
runs several of our tasks. Outcomes arrive when a whole Spark job is done, so many thousand tasks become
several Spark jobs in a row, and the driver holds the outcomes of only one of them.
"""

from __future__ import annotations

import pickle
import socket
import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from stratalog.engine.engine import Result, Task, TaskFunction, TaskOutcome, in_turns, pack, task_sizes
from stratalog.engine.progress import OnProgress, Progress
from stratalog.errors import StratalogError
from stratalog.files.paths import parent_path
from stratalog.files.reading import DiskReader
from stratalog.spark.session import own_python
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from stratalog.log.cleaning.clean import DirtyLog, Replace
    from stratalog.log.cleaning.results import CleanResult

PACKS_PER_CORE = 4
POLL_SECONDS = 0.1
# What setJobGroup changes in the caller's session; it is restored after the map.
GROUP_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
# Used if Spark does not say how many cores it has (Spark Connect).
ASSUMED_CORES = 8
TASKS_IN_A_JOB = 10_000


class SparkEngine:
    """Maps on the executors of a session. Workers need this package, and must see the same files."""

    def __init__(self, spark: SparkSession, *, packs_per_core: int = PACKS_PER_CORE) -> None:
        self.spark = spark
        self.context = context_of(spark)
        self.cores = self.context.defaultParallelism if self.context else ASSUMED_CORES
        self.packs_count = max(1, self.cores * packs_per_core)

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
        """As `Engine.run`. `is_wanted` is called for all tasks of a Spark job before the job starts.

        The devices of executors are unknown here, so each log directory is treated as a disk (`paths` are
        those of folders in log directories). A job takes tasks from all directories in turn.
        """
        size_of = task_sizes(len(tasks), sizes)
        order = in_turns([parent_path(path) for path in paths]) if paths else list(range(len(tasks)))
        sizes_in_order = [size_of[number] for number in order]
        for first in range(0, len(tasks), TASKS_IN_A_JOB):
            of_job = range(first, min(first + TASKS_IN_A_JOB, len(tasks)))
            numbers_of_job = order[of_job.start : of_job.stop]
            wanted = [number for number in numbers_of_job if is_wanted is None or is_wanted(number)]
            if not wanted:
                continue
            packs = pack([size_of[number] for number in wanted], self.packs_count)
            work = [[(wanted[index], tasks[wanted[index]]) for index in members] for members in packs]
            numbers = self.spark.range(0, len(packs), 1, len(packs))
            with own_python(self.context):
                frame = numbers.mapInArrow(_runner(function, work), "outcome binary")
            with self._reporting(on_progress, of_job, len(packs), sizes_in_order):
                rows = frame.collect()
            for row in rows:
                host, outcomes = pickle.loads(row.outcome)
                for number, value in outcomes:
                    yield TaskOutcome(number, tasks[number], met_on(host, value))

    def run_on_hosts(
        self, function: TaskFunction[str, Result], *, expected: Sequence[str] = ()
    ) -> Mapping[str, Result | StratalogError]:
        """As `HostsEngine.run_on_hosts`. Hosts are distinguished by Spark's names for them."""
        from stratalog.spark.on_hosts import run_on_hosts

        return run_on_hosts(self, function, expected)

    def clean_log(
        self,
        log: DirtyLog,
        now_ms: int,
        replace_segments: Replace,
        *,
        on_read: Callable[[int], object] = lambda _: None,
    ) -> CleanResult:
        """Compact a log once on the executors, which write into its directory; this process replaces the
        segments.

        An error of Spark becomes one of our errors: this log fails, but the logs after it do not.
        """
        from stratalog.log.cleaning.distributed import clean_in_parts
        from stratalog.spark.compaction import SparkParts
        from stratalog.spark.plain_errors import plain_errors

        with plain_errors(), closing(SparkParts(self)) as parts:
            return clean_in_parts(log, now_ms, replace_segments, parts, on_read=on_read)

    @contextmanager
    def _reporting(
        self, on_progress: OnProgress | None, of_job: range, packs_count: int, size_of: Sequence[int]
    ) -> Iterator[None]:
        """Call `on_progress` from a thread while the block runs, and once more at its end."""
        if on_progress is None:
            yield
            return
        done_before = sum(size_of[: of_job.start])
        size_of_job = sum(size_of[of_job.start : of_job.stop])

        def report(packs_done: int) -> None:
            # Spark counts finished tasks but does not say which: packs are of about equal size.
            on_progress(
                Progress(
                    tasks_done=of_job.start + len(of_job) * packs_done // packs_count,
                    tasks_count=len(size_of),
                    bytes_done=done_before + size_of_job * packs_done // packs_count,
                    bytes_total=sum(size_of),
                )
            )

        report(0)
        if self.context is None:
            yield
        else:
            with polling(self.context, report):
                yield
        report(packs_count)


def _runner(
    function: TaskFunction[Task, Result], work: list[list[tuple[int, Task]]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a worker runs: takes numbers of packs, and yields a pickled outcome for each."""
    planned_by = __version__

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        from stratalog.spark.workers import prepare_worker, require_version

        require_version(planned_by)
        prepare_worker()
        for batch in batches:
            outcomes = [
                pickle.dumps((socket.gethostname(), run_pack(function, work[number])))
                for number in batch.column(0).to_pylist()
            ]
            yield pyarrow.RecordBatch.from_arrays(
                [pyarrow.array(outcomes, pyarrow.binary())], names=["outcome"]
            )

    return run


def met_on(host: str, value: Result | StratalogError) -> Result | StratalogError:
    """The outcome of a task. An error names its host, unless the driver runs there too.

    The name is needed because another host may have another disk, another user and other memory.
    """
    if isinstance(value, StratalogError) and host != socket.gethostname():
        return value.on_host(host)
    return value


def run_pack(
    function: TaskFunction[Task, Result], members: Sequence[tuple[int, Task]]
) -> list[tuple[int, Result | StratalogError]]:
    """The number of each task with its result, or with the Stratalog error that it raised.

    Spark only passes on the text of an exception; our errors have attributes, so they are returned as values.
    """
    disk = DiskReader()
    # Close the files that an earlier job left open. Spark reuses processes, and by now other files may have
    # these names.
    disk.close()
    outcomes: list[tuple[int, Result | StratalogError]] = []
    for number, task in members:
        try:
            outcomes.append((number, function(disk, task)))
        except StratalogError as error:
            outcomes.append((number, error))
    disk.close()
    return outcomes


def context_of(spark: SparkSession) -> SparkContext | None:
    """The context that knows cores and progress; None under Spark Connect, which has none."""
    return None if type(spark).__module__.startswith("pyspark.sql.connect") else spark.sparkContext


@contextmanager
def polling(context: SparkContext, report: Callable[[int], None]) -> Iterator[None]:
    """Report the finished Spark tasks of the jobs that the block starts, as their number grows."""
    group = f"stratalog-{uuid.uuid4().hex}"
    finished = threading.Event()

    def poll() -> None:
        seen = 0
        while not finished.wait(POLL_SECONDS):
            done = _completed_tasks(context, group)
            if done > seen:
                report(seen := done)

    thread = threading.Thread(target=poll, name="stratalog-progress", daemon=True)
    before = {key: context.getLocalProperty(key) for key in GROUP_PROPERTIES}
    context.setJobGroup(group, "stratalog", interruptOnCancel=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
        for key, value in before.items():
            context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None removes it


def _completed_tasks(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    done = 0
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            done += stage.numCompletedTasks if stage else 0
    return done
