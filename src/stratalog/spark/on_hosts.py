"""Runs a function once on each host of a cluster, as a barrier stage: one task for each core, all at once.

Normally Spark chooses where and when each task runs. In a barrier stage with a task for each core, all tasks
run at the same time, on all executors. The tasks exchange the names of their hosts. The first task of each
host does the work, and the others end at once.

A Python worker does not know Spark's name for its host, and the addresses in a barrier stage are those of
connections. But on any cluster manager, every executor is started with `--hostname`, and an SQL expression
can read the command line of its process.
"""

from __future__ import annotations

import pickle
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from stratalog.engine.engine import Result, TaskFunction
from stratalog.errors import StratalogError, UsageError
from stratalog.spark.session import own_python
from stratalog.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext

    from stratalog.spark.engine import SparkEngine

LONGEST_WAIT_S = 30.0
SETTLED_S = 3.0
_POLL_S = 0.2
_COMMAND = "java_method('java.lang.System', 'getProperty', 'sun.java.command') AS command"


def run_on_hosts(
    engine: SparkEngine, function: TaskFunction[str, Result], expected: Sequence[str] = ()
) -> dict[str, Result | StratalogError]:
    """The result of each host, by Spark's name for it."""
    context = engine.context
    if context is None:
        raise UsageError(
            "--by-host needs a session of its own: Spark Connect does not say which hosts it has."
        )
    if not str(context.master).startswith("local"):
        _wait_for_executors(context, expected)
    count = slots_count(context)
    commands = engine.spark.range(0, count, 1, count).selectExpr(_COMMAND)
    with own_python(context):
        frame = commands.mapInArrow(_host_runner(function), "outcome binary", barrier=True)
    return dict(pickle.loads(row.outcome) for row in frame.collect())


def slots_count(context: SparkContext) -> int:
    """How many tasks all executors run at once.

    This is not `defaultParallelism`, which is only a setting: with fewer tasks than slots some hosts have
    none, and a barrier stage with more tasks than slots never starts. Spark itself compares a barrier stage
    with this number.
    """
    spark = context._jsc.sc()
    profile = spark.resourceProfileManager().defaultResourceProfile()
    return max(1, int(spark.maxNumConcurrentTasks(profile)))


def _wait_for_executors(context: SparkContext, expected: Sequence[str]) -> None:
    """Executors start one after the other: wait for those on expected hosts, and until no more arrive."""
    tracker = context._jsc.sc().statusTracker()
    began_s = changed_s = time.monotonic()
    known: list[str] = []
    while time.monotonic() - began_s < LONGEST_WAIT_S:
        executors = tracker.getExecutorInfos()
        found = sorted(f"{each.host()}:{each.port()}" for each in executors)
        if found != known:
            known, changed_s = found, time.monotonic()
        hosts = {address.rpartition(":")[0] for address in known}
        # The driver is in the list too.
        is_settled = len(known) > 1 and time.monotonic() - changed_s >= SETTLED_S
        if is_settled and hosts.issuperset(expected):
            return
        time.sleep(_POLL_S)


def host_in(command: str | None) -> str:
    """The name by which Spark knows the host of an executor, from its command line; an embedded Spark has
    none, and gets the machine's name."""
    found = re.search(r"--hostname\s+(\S+)", command or "")
    return socket.gethostname() if found is None else found[1]


def _host_runner(
    function: TaskFunction[str, Result],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    planned_by = __version__

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow
        from pyspark import BarrierTaskContext

        from stratalog.spark.engine import run_pack
        from stratalog.spark.workers import prepare_worker, require_version

        require_version(planned_by)
        prepare_worker()
        (command,) = [text for batch in batches for text in batch.column(0).to_pylist()]
        context = BarrierTaskContext.get()
        hosts = context.allGather(host_in(command))
        own = context.partitionId()
        outcomes = []
        if hosts.index(hosts[own]) == own:
            ((_, value),) = run_pack(function, [(0, hosts[own])])
            outcomes.append(pickle.dumps((hosts[own], value)))
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(outcomes, pyarrow.binary())], names=["outcome"])

    return run
