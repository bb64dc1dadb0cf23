"""How long does a command take to start, and how long does the first use after an installation take?

`start_*`: the CPU time of whole processes, against `python -c pass`. The commands are `stratalog --version`,
and `ls` and `doctor` of the small log directory that Kafka 4.3.1 left after a clean stop. The limit is what
each command has to import: nothing for `--version`; click, NumPy and the code that reads logs for the others.

`first_*`: seconds with an empty cache of kernels, against the last commit before the work that made the first
use faster. The commands are `append` of one line and of 10,000 lines to a new log, and `recover` of the
directory that a killed Kafka 4.3.1 left, as it is and with 64 MiB in one log. Small work runs as
plain Python. For more work kernels must be compiled first, and the limit is the time that this takes. The
benchmark takes some minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.dump import batches
from benchmarks.rounds import Rounds
from tests.fixtures.catalog import log_dirs

START_FLOOR = 0.3
FIRST_FLOOR = 3.0
FIRST_ROUNDS = 3
LARGE_SIZE = 64 << 20
LINES = 10_000
ROOT = Path(__file__).parents[1]
# The last commit before the work on the first use.
BEFORE = "7ec2bde53b"
MODULE = "stratalog.cli.main"


def environment(**more: str) -> dict[str, str]:
    """The variables of a run with cached bytecode; container images often set PYTHONDONTWRITEBYTECODE."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | more


def cpu_seconds(*arguments: str) -> float:
    """The CPU time of a Python process."""
    with Path(os.devnull).open("wb") as nowhere:
        process = subprocess.Popen(
            [sys.executable, *arguments], stdout=nowhere, stderr=nowhere, env=environment()
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return used.ru_utime + used.ru_stime


def first_use(source: Path, work: Path, prepare: Callable[[Path], list[str]]) -> float:
    """The seconds of a command with the sources of `source`, without any compiled kernel."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    command = [sys.executable, "-m", MODULE, *prepare(work)]
    variables = environment(PYTHONPATH=str(source), NUMBA_CACHE_DIR=str(work / "kernels"))
    began = time.perf_counter()
    subprocess.run(command, env=variables, cwd=work, capture_output=True, check=True)
    return time.perf_counter() - began


def append(lines: int) -> Callable[[Path], list[str]]:
    def prepare(work: Path) -> list[str]:
        (work / "lines").write_text("".join(f"line {number}\n" for number in range(lines)))
        return ["append", "--create", str(work / "orders-0"), str(work / "lines")]

    return prepare


def recover(size: int) -> Callable[[Path], list[str]]:
    """`recover` of what a killed broker left; if `size` is not 0, with a log of that many bytes in it."""

    def prepare(work: Path) -> list[str]:
        (left,) = log_dirs("4.3.1", "killed")
        logs = Path(shutil.copytree(left, work / "logs"))
        if size:
            for path in (logs / "binary-0").iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            written = 0
            with (logs / "binary-0" / f"{0:020d}.log").open("wb") as file:
                for batch in batches():
                    written += file.write(batch)
                    if written >= size:
                        break
        return ["recover", str(logs)]

    return prepare


def compare_first_uses(rounds: Rounds, work: Path) -> None:
    archive = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        print(f"first_*: this is not a clone with the commit {BEFORE}: {archive.stderr.decode().strip()}")
        return
    subprocess.run(["tar", "-x", "-C", str(work)], input=archive.stdout, check=True)
    for name, prepare in {
        "append": append(1),
        "append_many": append(LINES),
        "recover": recover(0),
        "recover_large": recover(int(LARGE_SIZE * rounds.scale)),
    }.items():
        rounds.compare_times(
            f"first_{name}",
            ours=partial(first_use, ROOT / "src", work / "ours", prepare),
            rival=partial(first_use, work / "src", work / "rival", prepare),
            floor=FIRST_FLOOR,
            unit="s",
            rounds=FIRST_ROUNDS,
        )


def main() -> None:
    rounds = Rounds(__doc__ or "")
    (logs,) = log_dirs("4.3.1", "clean")
    for name, arguments in {
        "version": ["--version"],
        "ls": ["ls", str(logs)],
        "doctor": ["doctor", str(logs)],
    }.items():
        rounds.compare_times(
            f"start_{name}",
            ours=partial(cpu_seconds, "-m", "stratalog.cli.entry", *arguments),
            rival=lambda: cpu_seconds("-c", "pass"),
            floor=START_FLOOR,
            unit="s of CPU",
        )
    with tempfile.TemporaryDirectory(prefix="stratalog-start-") as work:
        compare_first_uses(rounds, Path(work))
    rounds.end()


if __name__ == "__main__":
    main()
