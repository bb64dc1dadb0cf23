"""Damaged files of every kind, and whole damaged directories, through all that reads and recovers them.

Only our own errors come out, nothing outside a buffer is read, memory is bounded, and every case ends. Each
block of cases runs in a process of its own (tests/properties/attack_files.py). With the batches of
test_mutations.py these are a million cases in `make test-deep`; the end of a run says how many of each kind.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests import profile
from tests.counting import Count
from tests.properties.attacking import run_attack

ROOT = Path(__file__).parents[2]
SEED = 14
# Cases in `make test-deep`, in `make test`, in `make quick`; and how many a process runs.
GROUPS = {
    "files": (730_000, 1_500, 600, 20_000),
    "segments": (40_000, 150, 60, 4_000),
    "directories": (28_000, 80, 60, 4_000),
    "links": (2_000, 30, 20, 500),
}
MET = {
    "files": [
        "index: CorruptIndexError",
        "time index: CorruptIndexError",
        "transaction index: CorruptIndexError",
        "snapshot: CorruptSnapshotError",
        "snapshot: fine",
        "epochs: CorruptCheckpointError",
        "epochs: CheckpointNumberError",
        "partition.metadata: CorruptCheckpointError",
        "meta.properties: CorruptCheckpointError",
        "checkpoint: CorruptCheckpointError",
        "journal: CorruptCheckpointError",
        "journal: fine",
        "manifest: restore: QuarantineError",
        "metadata snapshot: a problem",
        "metadata snapshot: fine",
        "record of __consumer_offsets: InvalidRecordError",
        "record of __cluster_metadata: fine",
    ],
    "segments": ["scan: END", "scan: TORN_TAIL", "view: fine", "recovery: fine", "recovery: load: fine"],
    "directories": ["view: fine", "recovery: fine", "recovery: load: fine", "recovery: read: fine"],
    "links": ["view: fine", "recovery: fine", "recovery: DiskError"],
}


def blocks() -> list[tuple[str, int, int]]:
    """(group, first case, how many) of each process."""
    found = []
    for group, (deep, ci, quick, size) in GROUPS.items():
        count = profile.examples(deep, quick=quick, ci=ci)
        found += [(group, first, min(size, count - first)) for first in range(0, count, size)]
    return found


def attack(work: Path, group: str, first: int, count: int, **environment: str) -> dict[str, dict[str, int]]:
    """Run these cases; fail with the number of the one that went wrong, or return what came of them."""
    # One arena, or every thread would reserve 64 MiB of addresses.
    arena = {"MALLOC_ARENA_MAX": "1", **environment}
    found: dict[str, dict[str, int]] = run_attack(
        "attack_files", group, SEED, first, count, work=work, **arena
    )
    return found


@pytest.mark.parametrize(("group", "first", "count"), blocks())
def test_damaged_files_are_read_or_refused(
    group: str, first: int, count: int, tmp_path: Path, counts: Count
) -> None:
    found = attack(tmp_path, group, first, count)

    counts("mutated files", found["kinds"])
    assert sum(found["kinds"].values()) == count
    if profile.current() != profile.QUICK:  # damage that is turned away at the door would prove nothing
        assert [met for met in MET[group] if not found["outcomes"].get(met)] == []


@pytest.mark.deep  # it compiles every kernel again
@pytest.mark.parametrize("group", ["files", "segments", "directories"])
def test_no_kernel_of_files_indexes_outside_an_array(group: str, tmp_path: Path, counts: Count) -> None:
    deep, *_, count = GROUPS[group]

    found = attack(
        tmp_path,
        group,
        deep,
        count // 4,
        NUMBA_BOUNDSCHECK="1",
        NUMBA_CACHE_DIR=str(tmp_path / "numba"),
    )

    counts("mutated files", found["kinds"])
    assert list((tmp_path / "numba").rglob("*.nbi"))


PLANTED = """
import sys
from tests.properties import attack_files
from stratalog.files.disk import Disk


def run(rng):
    {what}


attack_files.runner = lambda group, work: (run, lambda: {{"outcomes": {{}}, "kinds": {{}}}})
attack_files.SECONDS = {seconds}
attack_files.main("files", 1, 5, 1, sys.argv[1])
print("not caught")
"""


@pytest.mark.parametrize(
    ("what", "exit_code", "words"),
    [
        ("bytearray(2 << 30)", 1, "MemoryError"),
        ("attack_files.guarded_buffer(10).base[4096 + 4096]", -signal.SIGSEGV, "Segmentation fault"),
        ("__import__('time').sleep(500)", -signal.SIGALRM, "most recent call first"),
        ("{}['no error of ours']", 1, "KeyError"),
    ],
    ids=["2 GiB of memory", "a read outside", "a hang", "an error that is not ours"],
)
def test_what_is_looked_for_is_caught_where_it_is_planted(
    what: str, exit_code: int, words: str, tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    progress.write_bytes(struct.pack("<q", -1))

    run = subprocess.run(
        [
            sys.executable,
            "-c",
            PLANTED.format(what=what, seconds=1 if exit_code == -signal.SIGALRM else 400),
            str(progress),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stdout) == (exit_code, "")
    assert words in run.stderr
    assert struct.unpack("<q", progress.read_bytes()) == (5,)
