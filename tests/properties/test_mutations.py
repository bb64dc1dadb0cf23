"""Damaged batches through every reader: only our own errors, no hang, nothing outside the buffer is touched.

Each block of cases runs in a process of its own (tests/properties/attack.py), so that one that dies of a read
outside of its memory names the case: `python -m tests.properties.attack SEED NUMBER 1 PROGRESS` has it again.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.records.columns import read_columns
from stratalog.records.compression import decompress
from stratalog.records.reader import read_batches
from stratalog.records.unpack import PROBLEMS
from tests import naive, profile
from tests.counting import Count
from tests.properties.attacking import run_attack
from tests.properties.corpus import corpus
from tests.properties.mutate import mutated

ROOT = Path(__file__).parents[2]
SEED = 20_000
CASES = profile.examples(200_000, quick=1000, ci=1000)
BLOCK = 5000
BLOCKS = range(0, CASES, BLOCK)


def attack(work: Path, first: int, count: int, counts: Count, **environment: str) -> dict[str, int]:
    """Run these cases, fail with the number of the one that went wrong, return the outcomes."""
    found = run_attack("attack", SEED, first, count, work=work, **environment)
    counts("mutated files", {"record batches in memory": count})
    outcomes: dict[str, int] = found["outcomes"]
    return outcomes


@pytest.mark.parametrize("first", BLOCKS)
def test_damaged_batches_are_read_or_refused(first: int, tmp_path: Path, counts: Count) -> None:
    outcomes = attack(tmp_path, first, min(BLOCK, CASES - first), counts)

    # Damage that is turned away at the door would prove nothing: all rules of all formats must have been met.
    for rule in PROBLEMS.values():
        assert outcomes[f"decode: {rule}"] > 0
    for outcome in ("END", "TORN_TAIL", "BAD_LENGTH", "BAD_MAGIC"):
        assert outcomes[f"walk: {outcome}"] > 0
    for error in ("CorruptRecordError", "CorruptCompressionError", "UnsupportedCompressionTypeError"):
        assert outcomes[f"columns: {error}"] > 0
    assert outcomes["columns: RecordTooLargeError"] > 0
    assert outcomes["columns: fine"] > 0
    assert outcomes["naive: records"] > 0
    for stop in ("END", "TORN_TAIL", "BAD_LENGTH", "BAD_MAGIC", "WRONG_CRC", "OFFSET_OVERFLOW"):
        assert outcomes[f"recover: {stop}"] > 0
    assert outcomes["audit: usual"] > 0
    assert outcomes["audit: unusual"] > 0


@pytest.mark.deep  # it compiles every kernel again; forbidden pages catch most of it in every run
def test_no_kernel_indexes_outside_an_array(tmp_path: Path, counts: Count) -> None:
    # Numba takes a cached kernel without the checks for one with them, hence a cache of its own. What goes
    # through the intrinsics is not checked by this: that is what the forbidden pages are for.
    count = profile.examples(10_000)

    outcomes = attack(
        tmp_path, CASES, count, counts, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path / "numba")
    )

    assert list((tmp_path / "numba").rglob("*.nbi"))
    assert outcomes["columns: fine"] > 0


PLANTED = """
import sys
from tests.properties import arena, mutate
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import load_u8


@kernel
def one_too_far(data, position):
    return load_u8(data, position)


guarded = arena.Arena()
guarded.reset(front=sys.argv[1] == "front")
data = guarded.holding(mutate.mutated(1, 1).data)
outside = -1 if guarded.front else data.size
assert one_too_far(data, 0) == data[0]
assert one_too_far(data, data.size - 1) == data[-1]
print("inside", flush=True)
one_too_far(data, outside)
print("outside", flush=True)
"""


@pytest.mark.parametrize("end", ["front", "behind"])
def test_a_planted_read_outside_the_buffer_is_caught(end: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PLANTED, end], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.stdout == "inside\n"
    assert run.returncode == -signal.SIGSEGV


HANGING = """
import sys
from tests.properties import attack
from stratalog.records.kernels.jit import kernel


@kernel
def forever(number):
    while number != 1:
        number = number // 2 * 2
    return number


attack.SECONDS = 0.5
attack.Readers.run = lambda self, case: forever(2) if case.number == 7 else None
attack.main(1, 5, 10, sys.argv[1])
"""


def test_a_kernel_that_hangs_is_caught_with_its_case(tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    progress.write_bytes(struct.pack("<q", -1))

    run = subprocess.run(
        [sys.executable, "-c", HANGING, str(progress)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == -signal.SIGALRM
    assert struct.unpack("<q", progress.read_bytes()) == (7,)


def test_a_case_is_the_same_each_time() -> None:
    assert [mutated(SEED, number) for number in range(50)] == [mutated(SEED, number) for number in range(50)]


def test_the_batches_are_healthy_before_they_are_damaged() -> None:
    for seed in corpus():
        expected = naive.decode(seed.raw, lambda codec, data, magic: decompress(codec, data, magic=magic))

        found = [record for batch in read_batches(seed.raw) for record in batch]
        columns = list(read_columns(seed.raw, columns=("offset",), include_control=True))

        assert [record[:4] for record in found] == [record[:4] for record in expected], seed.name
        offsets = [offset for part in columns for offset in part["offset"].to_pylist()]
        assert offsets == [record.offset for record in expected], seed.name
