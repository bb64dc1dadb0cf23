"""How kernels are compiled and kept: on disk where that can be, once in words where it cannot.

Each case runs a copy of the package in a process of its own, since Numba decides at import.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import stratalog
from stratalog.records.kernels.jit import INTERPRETED
from tests import profile

pytestmark = pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")

NOBODY = 65534

CHECKSUM = """
import logging, os
import stratalog
assert stratalog.__file__.startswith(os.environ["PYTHONPATH"]), stratalog.__file__
logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.jit import compile_always
from stratalog.records.kernels.memory import byte_array
compile_always()
print(f"{int(crc32c(byte_array(b'123456789'), 0, 9)):08x}")
print("from the cache:", sum(crc32c.machine_code().stats.cache_hits.values()))
"""
ALL_KERNELS = (
    CHECKSUM
    + """
from stratalog.records.kernels import encode, gather, hash, walk
for each in (encode.encode, gather.gather, hash.murmur2, walk.walk):
    each.machine_code()
"""
)
# Python itself may lie where only its owner can read. So what Numba loads at its first compilation is loaded
# before the process becomes somebody else.
BECOME_NOBODY = f"""
import os, platform, hashlib, pathlib, logging, mmap, importlib.util
import numba.extending, numpy
numba.njit(lambda row: row.a + 1)(numpy.zeros(1, numpy.dtype((numpy.record, [("a", "i8")])))[0])
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""
HOMELESS = {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}


@pytest.fixture
def package() -> Iterator[Path]:
    """A copy of what kernels need of the package, readable for all, without compiled files.

    Not in pytest's own folders, which are for their user alone.
    """
    with tempfile.TemporaryDirectory(prefix="stratalog-kernels-") as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns("__pycache__", "spark", "cli", "internal")
        shutil.copytree(Path(stratalog.__file__).parent, folder / "stratalog", ignore=ignored)
        folder.chmod(0o755)
        yield folder
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)


def run(package: Path, program: str, **environment: str) -> tuple[str, str]:
    """(stdout, stderr) of a Python program that imports the copy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))}
    kept |= {"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_second_process_takes_the_machine_code_of_the_first(package: Path, tmp_path: Path) -> None:
    first, _ = run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))
    second, complaints = run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))

    assert first == "e3069283\nfrom the cache: 0\n"
    assert second == "e3069283\nfrom the cache: 1\n"
    assert complaints == ""


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_files_of_the_cache_are_compiled_again(package: Path, tmp_path: Path, suffix: str) -> None:
    run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))
    (file,) = tmp_path.rglob(f"crc32c.crc32c-*{suffix}")
    whole = file.read_bytes()
    some = len(whole) // 2
    zeros_inside = whole[:some] + bytes(200) + whole[some + 200 :]
    kinds = [whole[:some], b"", bytes(len(whole)), random.Random(1).randbytes(len(whole))]
    if suffix == ".nbc":
        kinds.insert(0, zeros_inside)

    for damaged in kinds[: profile.examples(len(kinds), quick=2, ci=2)]:
        file.write_bytes(damaged)
        again, complaints = run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))
        assert (again, complaints) == ("e3069283\nfrom the cache: 0\n", "")

    assert run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == "e3069283\nfrom the cache: 1\n"


def test_machine_code_is_loaded_without_what_only_the_compiler_needs(package: Path, tmp_path: Path) -> None:
    program = CHECKSUM + "import sys; print('numba.np.linalg' in sys.modules)"

    first, second = (
        run(package, program, NUMBA_CACHE_DIR=str(tmp_path))[0].splitlines()[1:] for _ in range(2)
    )

    assert first == ["from the cache: 0", "True"]
    assert second == ["from the cache: 1", "False"]


def test_a_change_in_another_file_makes_the_machine_code_anew(package: Path, tmp_path: Path) -> None:
    program = """
import numpy as np
from stratalog.records.kernels.hash import siphash128
low, high = siphash128(np.arange(8, dtype=np.uint8), 0, 8, np.uint64(1), np.uint64(2))
print(f"{int(low):x}", sum(siphash128.machine_code().stats.cache_hits.values()))
"""
    first, again = (run(package, program, NUMBA_CACHE_DIR=str(tmp_path))[0].split() for _ in range(2))
    helper = package / "stratalog" / "records" / "kernels" / "intrinsics.py"
    text, times = helper.read_text(), helper.stat()
    plain, swapped = "types.uint64, swap=False", "types.uint64, swap=True "
    assert plain in text
    helper.write_text(text.replace(plain, swapped))
    os.utime(helper, ns=(times.st_atime_ns, times.st_mtime_ns))  # its size is the same too

    changed = run(package, program, NUMBA_CACHE_DIR=str(tmp_path))[0].split()

    assert again == [first[0], "1"]
    assert changed[0] != first[0]
    assert changed[1] == "0"


def test_where_nothing_can_be_written_kernels_work_and_that_is_said_once(package: Path) -> None:
    _refuse_writing(package)

    output, complaints = run(package, as_nobody(ALL_KERNELS), **HOMELESS)

    assert output == "e3069283\nfrom the cache: 0\n"
    (line,) = complaints.splitlines()
    assert line.startswith("stratalog.records.kernels.machine WARNING compiled kernels cannot be cached")
    assert "NUMBA_CACHE_DIR" in line


def test_a_folder_named_for_the_cache_is_used_by_a_user_without_a_home(package: Path) -> None:
    cache = package / "cache"
    cache.mkdir()
    if os.getuid() == 0:
        os.chown(cache, NOBODY, -1)
    _refuse_writing(package, except_for=cache)

    _, complaints = run(package, as_nobody(CHECKSUM), NUMBA_CACHE_DIR=str(cache), **HOMELESS)

    assert complaints == ""
    assert any(cache.iterdir())


FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"


def test_on_a_full_disk_kernels_work(package: Path, tmp_path: Path) -> None:
    output, complaints = run(package, FULL_DISK + CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))

    assert output == "e3069283\nfrom the cache: 0\n"
    assert complaints.count("\n") == complaints.count("compiled kernels cannot be cached") == 1


def test_on_a_full_disk_kernels_are_loaded_though_there_is_no_room_for_images(
    package: Path, tmp_path: Path
) -> None:
    run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))
    for path in tmp_path.rglob("*.image"):
        path.unlink()

    again = run(package, FULL_DISK + CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))

    assert again == ("e3069283\nfrom the cache: 1\n", "")
    assert not [*tmp_path.rglob("*.image*")]


def test_machine_code_of_other_sources_is_not_run_after_a_kill_between_index_and_machine_code(
    package: Path, tmp_path: Path
) -> None:
    run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))
    (file,) = tmp_path.rglob("crc32c.crc32c-*.nbc")
    before = file.read_bytes()
    source = package / "stratalog" / "records" / "kernels" / "walk.py"
    source.write_text(source.read_text() + "# changed\n")
    run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))

    file.write_bytes(before)

    assert run(package, CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == "e3069283\nfrom the cache: 0\n"


def as_nobody(program: str) -> str:
    """Root may write anywhere, so it becomes a user who may not; other users are stopped by the modes."""
    return BECOME_NOBODY + program if os.getuid() == 0 else program


def _refuse_writing(package: Path, *, except_for: Path | None = None) -> None:
    for path in (package, *package.rglob("*")):
        if path != except_for:
            path.chmod(0o555 if path.is_dir() else 0o444)


def test_garbage_is_collected_less_often_while_kernels_are_compiled() -> None:
    from stratalog.records.kernels.machine import _Compilations

    listener, before = _Compilations(), gc.get_threshold()

    listener.on_start(None)
    listener.on_start(None)  # a kernel that the first one calls
    listener.on_end(None)
    during = gc.get_threshold()
    listener.on_end(None)

    assert during[0] > before[0]
    assert during[1:] == before[1:]
    assert gc.get_threshold() == before
