"""A stream into our sink, killed and started again while its source grows: every record exactly once."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import stratalog
from stratalog.manager.recovery import recover_directories
from tests import profile
from tests.jobs.writing.sinking import by_partition, contents_of, staged_in

KILLS = profile.examples(20, quick=1)
START_SECONDS = 240

# Copies for ever, or until there is nothing more to copy.
COPY = """
import sys
from stratalog.spark.session import session
source, sink, checkpoint, ends = sys.argv[1:]
with session("killed", master="local[2]") as spark:
    frame = (spark.readStream.format("stratalog").option("startingOffsets", "earliest")
             .option("maxOffsetsPerTrigger", "500").load(source))
    writer = (frame.select("value").writeStream.format("stratalog").option("topic", "copy")
              .option("partitions", "2").option("checkpointLocation", checkpoint))
    how = {"availableNow": True} if ends == "ends" else {"processingTime": "0 seconds"}
    query = writer.trigger(**how).start(sink)
    while ends != "ends" and not (query.lastProgress and query.lastProgress["batchId"] > 0):
        query.awaitTermination(0.1)
    print("running", flush=True)
    query.awaitTermination()
"""


@contextmanager
def copying(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The copying process, in a group of its own that is killed in the end, its Java included."""
    command = [sys.executable, "-c", COPY, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def wait_until_running(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    assert ready, f"no batch within {START_SECONDS} s"
    assert process.stdout.readline() == "running\n", "it has ended"


def test_every_record_is_written_once_however_often_the_query_is_killed(tmp_path: Path) -> None:
    source, sink, checkpoint = (tmp_path / name for name in ("source", "sink", "checkpoint"))
    sink.mkdir()
    draw = random.Random(6)
    written = 0
    config = {"internal.segment.bytes": 20_000}
    with stratalog.open_log(source / "in-0", create=True, config=config) as log:
        for _ in range(KILLS):
            for _ in range(20):
                log.append_many([b"%d" % number for number in range(written, written + 100)])
                written += 100
            with copying(str(source), str(sink), str(checkpoint), "goes on") as process:
                wait_until_running(process)
                ends_s = time.monotonic() + draw.uniform(0.2, 4)
                while time.monotonic() < ends_s:
                    log.append_many([b"%d" % number for number in range(written, written + 50)])
                    written += 50
                    time.sleep(0.02)
        assert log.metrics()["NumLogSegments"] > 3

    with copying(str(source), str(sink), str(checkpoint), "ends") as process:
        process.wait(START_SECONDS)
        assert process.returncode == 0
    recover_directories([str(sink)])

    found = [value for values in by_partition(contents_of(sink), "copy").values() for value in values]
    assert sorted(int(value or b"-1") for value in found) == list(range(written))
    assert staged_in(sink) == []
