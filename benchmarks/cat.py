"""How fast are the records of a topic printed, against kcat, which asks a broker on this machine?

The topic has 1 GB: 10 million values of 100 bytes in one partition, in uncompressed batches of 16 KiB, as a
producer with default settings writes them. All of it is in the page cache. Both sides are whole processes
that print to /dev/null, so our time includes the start, the loading of kernels and the check of every
checksum. kcat gets its records through a socket, librdkafka creates an object for each, and one thread prints
them. Our limit is one pass for the checksums, one copy into columns and one copy into lines. kcat is that
of Debian's package.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import stratalog
from benchmarks.rounds import Rounds
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic
from tests.kafka.jars import resolve
from tests.kafka.tools import AS_SHIPPED

RECORDS = 10_000_000
RECORD_SIZE = 100
RECORDS_IN_A_BATCH = 150  # about 16 KiB
VALUES = 4096  # so many different ones
TOPIC = "lines"


def fill(directory: Path, count: int) -> None:
    """Writes `count` records with our own log, into the empty log that the broker has created."""
    texts = [(b"%09d " % number).ljust(RECORD_SIZE, b"x") for number in range(VALUES)]
    values = pa.array(texts, pa.binary())
    with stratalog.open_log(directory) as log:
        for start in range(0, count, RECORDS_IN_A_BATCH):
            rows = min(RECORDS_IN_A_BATCH, count - start)
            log.append_arrow(
                pa.table({"value": values.take(pa.array(np.arange(start, start + rows) % VALUES))})
            )


def run(command: Sequence[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def printed_size(command: Sequence[str]) -> int:
    """How many bytes a command prints."""
    size = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(1 << 20):
            size += len(piece)
    assert process.returncode == 0
    return size


def main() -> None:
    rounds = Rounds(__doc__ or "")
    if shutil.which("kcat") is None:
        sys.exit("kcat is not installed: on Debian, apt install kcat.")
    root = Path(tempfile.mkdtemp(prefix="stratalog-cat-"))
    count = int(RECORDS * rounds.scale)
    settings = {"log.retention.ms": "-1"}
    try:
        with Broker(resolve(), root / "broker", properties=settings, jvm=AS_SHIPPED) as broker:
            create_topic(broker.bootstrap, TOPIC)
            broker.stop()
            fill(broker.log_dir / f"{TOPIC}-0", count)
            broker.start()
            ours = [sys.executable, "-m", "stratalog.cli.main", "cat", str(broker.log_dir), "--topic", TOPIC]
            rival = ["kcat", "-C", "-q", "-e", "-b", broker.bootstrap, "-t", TOPIC]
            assert printed_size(ours) == printed_size(rival) == count * (RECORD_SIZE + 1)
            rounds.compare(
                "cat_vs_kcat",
                ours=lambda: run(ours),
                rival=lambda: run(rival),
                floor=3,
                work="records",
                amount=count,
            )
    finally:
        shutil.rmtree(root)
    rounds.end()


if __name__ == "__main__":
    main()
