"""How long does a command take to start?

Whole processes are compared with `python -c pass`: `stratalog --version`, and `ls` and `doctor` of the small
log directory that a Kafka 4.3.1 left after a clean stop. `--version` imports click and little else. The other
two also import NumPy, Numba and the kernels that read headers of batches, which is nearly all of their time.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.rounds import Rounds
from tests.fixtures.catalog import log_dirs

FLOOR = 0.3


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)


def main() -> None:
    rounds = Rounds(__doc__ or "")
    (logs,) = log_dirs("4.3.1", "clean")
    for name, arguments in {
        "version": ["--version"],
        "ls": ["ls", str(logs)],
        "doctor": ["doctor", str(logs)],
    }.items():
        rounds.compare(
            f"start_{name}",
            ours=lambda words=arguments: run("-m", "stratalog.cli.main", *words),
            rival=lambda: run("-c", "pass"),
            floor=FLOOR,
            work="starts",
            amount=1,
        )
    rounds.end()


if __name__ == "__main__":
    main()
