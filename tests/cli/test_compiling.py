"""The sentence about kernels that are being compiled: once, and only if it takes long."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stratalog.cli.compiling import WORDS, CompileNotice
from stratalog.records.kernels.jit import INTERPRETED
from tests.fixtures.catalog import log_dirs
from tests.waiting import PATIENCE_S

PROGRAM = """
import sys
from stratalog.cli.main import main
from stratalog.records.kernels.jit import compile_always
compile_always()
main(sys.argv[1:])
"""


def waited_for(said: list[str]) -> list[str]:
    end = time.monotonic() + PATIENCE_S
    while not said and time.monotonic() < end:
        time.sleep(0.01)
    return said


def test_it_is_said_once_while_a_kernel_is_compiled() -> None:
    said: list[str] = []
    notice = CompileNotice(said.append, patience_s=0.05)

    notice(True)
    notice(True)  # a kernel that the first one calls
    notice(False)
    assert waited_for(said) == [WORDS]
    notice(False)
    notice(True)
    time.sleep(0.3)
    notice(False)

    assert said == [WORDS]


def test_many_short_compilations_are_a_long_one() -> None:
    said: list[str] = []
    notice = CompileNotice(said.append, patience_s=0.4)

    for _ in range(8):
        notice(True)
        time.sleep(0.15)
        notice(False)

    assert waited_for(said) == [WORDS]


def test_a_short_compilation_is_not_mentioned() -> None:
    said: list[str] = []
    notice = CompileNotice(said.append)

    notice(True)
    notice(False)
    time.sleep(0.3)

    assert said == []


@pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")
def test_a_command_on_a_terminal_says_it(tmp_path: Path) -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    screen, stderr = os.openpty()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "cat", str(logs)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        timeout=PATIENCE_S,
        check=False,
    )
    os.set_blocking(screen, False)
    told = os.read(screen, 1 << 16)
    os.close(stderr)
    os.close(screen)

    assert done.returncode == 0
    assert told.decode().count("Compiling kernels") == 1


@pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")
def test_a_command_did_not_say_that_it_compiles_again_at_each_run(tmp_path: Path) -> None:
    (logs,) = log_dirs("4.3.1", "clean")
    full_disk = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"

    done = subprocess.run(
        [sys.executable, "-c", full_disk + PROGRAM, "cat", str(logs)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0
    (line,) = done.stderr.splitlines()  # and not that it compiles, as this is not a terminal
    assert line.startswith(f"Compiled kernels cannot be cached in {tmp_path}")
    assert line.endswith("Set NUMBA_CACHE_DIR to a folder that this user can write.")
