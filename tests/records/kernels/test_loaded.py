"""Kernels run without Numba once it has compiled them: which calls do, and when Numba is taken after all.

`tests/both_forms.py` compares what they return and write.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from stratalog import limits
from stratalog.records.kernels.images import NEEDS_NUMBA, Image, to_file
from stratalog.records.kernels.jit import INTERPRETED
from stratalog.records.kernels.loaded import (
    LOADED_CALLS,
    MISSING,
    PACKAGE,
    PLAIN_PROCESSES,
    UNKNOWN,
    LoadedKernel,
    _flatten,
    _source_paths,
    array_words,
    current_stamp,
    file_name,
    may_stay_plain,
    tuple_words,
)
from tests.records.kernels.test_machine import as_nobody, package, run

pytestmark = [
    pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="there are images for x86-64 only"),
]
__all__ = ["package"]

# More than plain Python does. `calls` is how many a process has made without Numba.
SUM = """
import sys
import numpy as np
from stratalog.records.kernels import decode, jit, loaded
rows = np.zeros(100_000, decode.RECORD)
rows["value_size"], rows["key_size"] = 3, -1
for _ in range(3):
    print(*decode.sums(rows), end=" ")
calls = loaded.LOADED_CALLS - jit._plain_time.loaded_calls
print("numba" in sys.modules, calls)
"""
SUMS = "0 300000 0 0 " * 3
WITH_NUMBA, WITHOUT = f"{SUMS}True 0\n", f"{SUMS}False 3\n"


class Pair(NamedTuple):
    left: int
    right: int


def test_a_second_process_needs_no_numba(package: Path, tmp_path: Path) -> None:
    first, second = (run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))[0] for _ in range(2))

    assert (first, second) == (WITH_NUMBA, WITHOUT)


def test_images_in_the_folder_of_the_package_are_for_all_users(package: Path) -> None:
    first, second = (run(package, SUM)[0] for _ in range(2))
    for path in (package, *package.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)

    assert (first, second) == (WITH_NUMBA, WITHOUT)
    assert run(package, SUM, HOME="/nonexistent", XDG_CACHE_HOME="/nonexistent")[0] == WITHOUT


def test_damaged_and_outdated_images_are_made_again(package: Path, tmp_path: Path) -> None:
    run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))
    (file,) = tmp_path.rglob("decode.sums-*.image")
    whole = file.read_bytes()

    for damaged in (b"", whole[:-1], bytes(len(whole)), whole[:50] + b"xxxx" + whole[54:]):
        file.write_bytes(damaged)
        assert run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == WITH_NUMBA
        assert file.read_bytes() == whole
    assert run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == WITHOUT

    source = package / "stratalog" / "records" / "kernels" / "walk.py"
    source.write_text(source.read_text() + "# changed\n")
    assert run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == WITH_NUMBA
    assert run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == WITHOUT


def test_an_upgrade_of_the_package_does_not_get_images_of_a_process_that_began_before(
    package: Path, tmp_path: Path
) -> None:
    upgrade = "open(loaded.__file__.replace('loaded', 'walk'), 'a').write('# changed\\n')\n"
    program = SUM.replace("rows =", f"{upgrade}rows =", 1)

    first = run(package, program, NUMBA_CACHE_DIR=str(tmp_path))[0]

    assert first == WITH_NUMBA
    assert run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == WITH_NUMBA
    assert run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))[0] == WITHOUT


def test_a_kernel_that_is_imported_after_an_upgrade_is_not_kept_for_the_version_before(
    package: Path, tmp_path: Path
) -> None:
    """After a rollback, every process ran the machine code of the other version."""
    source = package / "stratalog" / "records" / "kernels" / "decode.py"
    before = source.read_text()
    upgraded = before.replace("def sums(", "def sums(  # changed\n    ", 1)
    assert upgraded != before
    upgrade = f"""
import pathlib
from stratalog.records.kernels import loaded
loaded.current_stamp()
from stratalog.records.kernels.machine import _sources_hash
_sources_hash()
pathlib.Path({str(source)!r}).write_text({upgraded!r})
"""

    run(package, upgrade + SUM, NUMBA_CACHE_DIR=str(tmp_path))

    assert not [*tmp_path.rglob("decode.sums-*")]


def test_kernels_in_a_changed_zip_file_are_compiled_again(package: Path, tmp_path: Path) -> None:
    def zipped() -> dict[str, str]:
        path = shutil.make_archive(str(tmp_path / "package"), "zip", package, "stratalog")
        return {"PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path)}

    first, second = (run(package, SUM, **zipped())[0] for _ in range(2))
    source = package / "stratalog" / "records" / "kernels" / "walk.py"
    source.write_text(source.read_text() + "# changed\n")
    changed = run(package, SUM, **zipped())[0]

    assert (first, second, changed) == (WITH_NUMBA, WITHOUT, WITH_NUMBA)


def test_everything_that_kernels_are_made_of_is_in_the_stamp() -> None:
    paths = _source_paths()
    text = "\n".join(path.read_text() for path in paths)
    imported = set(re.findall(r"^ *from (stratalog\S*) import", text, re.MULTILINE))

    others = {name for name in imported if not name.startswith(PACKAGE)}
    # The last two are about logging and forks: no machine code is made of them.
    assert others == {"stratalog.limits", "stratalog.null_handler", "stratalog.forks"}
    assert Path(limits.__file__) in paths


def home_of(package: Path) -> Path:
    """A cache folder of a user, with all images that were beside the package."""
    kernels = package / "stratalog" / "records" / "kernels"
    name = f"kernels_{hashlib.sha1(str(kernels).encode(), usedforsecurity=False).hexdigest()}"
    folder = package / "home" / "numba" / name
    folder.mkdir(parents=True)
    for path in (kernels / "__pycache__").glob("*.image"):
        path.rename(folder / path.name)
    return package / "home"


def test_who_can_write_beside_the_package_runs_nothing_from_a_home_directory(package: Path) -> None:
    run(package, SUM)

    assert run(package, SUM, XDG_CACHE_HOME=str(home_of(package)))[0] == WITH_NUMBA


def test_who_cannot_write_beside_the_package_has_images_at_home(package: Path) -> None:
    run(package, SUM)
    home = home_of(package)
    for path in (package, *package.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    program = "from stratalog.records.kernels import decode, loaded; loaded.current_stamp()\n"

    assert run(package, program + as_nobody(SUM), XDG_CACHE_HOME=str(home))[0].endswith(" 3\n")


def test_where_memory_cannot_be_made_executable_there_are_no_images(package: Path, tmp_path: Path) -> None:
    program = """
import ctypes
import numpy as np
from stratalog.records.kernels import decode, loaded
refuse_execution = 65, 1, 0, 0, 0  # PR_SET_MDWE, of Linux 6.3
is_refused = ctypes.CDLL(None).prctl(*refuse_execution) == 0
found = loaded.LoadedKernel("decode.sums")((np.zeros(1, decode.RECORD),))
print((found is loaded.UNKNOWN) == is_refused)
"""
    run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))

    assert run(package, program, NUMBA_CACHE_DIR=str(tmp_path))[0] == "True\n"


def test_other_settings_of_numba_need_other_images(package: Path, tmp_path: Path) -> None:
    run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))

    changed = run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_CPU_NAME="generic")[0]

    assert changed == WITH_NUMBA


def test_numba_takes_over_after_many_calls(package: Path, tmp_path: Path) -> None:
    run(package, SUM, NUMBA_CACHE_DIR=str(tmp_path))
    program = SUM.replace("for _", "jit._plain_time.loaded_calls = 2\nfor _")

    assert run(package, program, NUMBA_CACHE_DIR=str(tmp_path))[0] == f"{SUMS}True {LOADED_CALLS}\n"


@pytest.fixture
def fresh_stamp() -> Iterator[None]:
    current_stamp.cache_clear()
    yield
    current_stamp.cache_clear()


@pytest.mark.usefixtures("fresh_stamp")
def test_settings_of_numba_in_a_file_leave_kernels_to_numba(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".numba_config.yaml").write_text("opt: 0\n")
    monkeypatch.chdir(tmp_path)

    assert current_stamp() is None


@pytest.mark.usefixtures("fresh_stamp")
def test_a_package_without_files_leaves_kernels_to_numba(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.records.kernels.loaded._FOLDER", tmp_path)

    assert current_stamp() is None


@pytest.mark.usefixtures("fresh_stamp")
def test_settings_need_not_be_text(monkeypatch: pytest.MonkeyPatch) -> None:
    before = current_stamp()
    current_stamp.cache_clear()
    monkeypatch.setenv("NUMBA_X", "\udcff")

    assert None is not current_stamp() != before


def test_a_working_directory_that_cannot_be_read_does_no_harm(package: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    inside = f"""
import os, numpy, ctypes, mmap, hashlib, importlib.util
import stratalog.records.kernels.loaded as loaded
os.chdir({str(closed)!r})
if os.getuid() == 0:
    os.setuid(65534)
else:
    os.chmod(".", 0)
loaded.current_stamp()  # None where this user cannot read Numba either
print("no error")
"""

    assert run(package, inside, NUMBA_CACHE_DIR=str(tmp_path))[0] == "no error\n"


def test_a_user_who_may_not_read_pythons_library_runs_kernels_without_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after `os.seteuid`, where Python is in another user's home directory."""
    current_stamp.cache_clear()
    monkeypatch.setitem(sys.modules, "importlib.util", None)

    assert LoadedKernel("decode.sums")((1,)) is UNKNOWN


# This kernel returns a boolean in a tuple in a tuple, so there is no image of it.
WALK_AND_CHECK = """
import numpy as np
from stratalog.records.kernels import jit, loaded, validate, walk
arguments = np.zeros(0, np.uint8), np.zeros(1, walk.BATCH), (True, 0, 0, 0)
kernel = validate.walk_and_check
print(kernel.run_loaded(*arguments) is loaded.MISSING, kernel.run_loaded(*arguments) is loaded.UNKNOWN)
kernel.machine_code()(*arguments)
"""


def test_a_kernel_without_an_image_is_missing_only_until_it_has_been_compiled(
    package: Path, tmp_path: Path
) -> None:
    first, second = (run(package, WALK_AND_CHECK, NUMBA_CACHE_DIR=str(tmp_path))[0] for _ in range(2))

    assert (first, second) == ("True False\n", "False True\n")


def test_only_some_processes_run_plain_python_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, folder = tmp_path / "file", tmp_path / "new" / "folder"
    closed.write_bytes(b"")
    monkeypatch.setattr("stratalog.records.kernels.loaded.cache_folders", lambda: (closed, folder))

    answers = [may_stay_plain.__wrapped__() for _process in range(PLAIN_PROCESSES + 2)]

    assert answers == [True] * PLAIN_PROCESSES + [False] * 2
    monkeypatch.setattr("stratalog.records.kernels.loaded.cache_folders", lambda: (closed,))
    assert may_stay_plain.__wrapped__()


def test_the_parts_of_a_call() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    kinds: list[object] = []
    parts: list[int] = []

    assert _flatten((array, np.int64(-7), Pair(1, 2), (np.bool_(True),)), kinds, parts)

    assert kinds == [(array.dtype, 2, 0x400), "int", (Pair, 2), "int", "int", (tuple, 1), "bool"]
    assert parts == [0, 0, 6, 4, array.ctypes.data, 2, 3, 12, 4, -7, 1, 2, True]


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
def test_the_largest_numbers_are_parts(number: int) -> None:
    parts: list[int] = []

    assert _flatten((number,), [], parts)
    assert parts == [number]


class _Subclass(np.ndarray):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize(
    "argument",
    [
        2**63,
        -(2**63) - 1,
        1.5,
        np.uint64(1),
        "text",
        None,
        (1, 1.5),
        np.zeros((2, 2))[:, 0],
        np.zeros(3, np.uint8)[1:].view(np.uint8).view(_Subclass),
        np.frombuffer(bytes(9), np.uint8)[1:].view(np.int64),
    ],
)
def test_other_arguments_are_for_numba(argument: object) -> None:
    assert not _flatten((1, argument), [], [])
    assert LoadedKernel("walk.walk")((1, argument)) is UNKNOWN


def test_words_tell_what_matters_to_machine_code() -> None:
    dtype = np.dtype([("a", np.int16), ("b", np.int64)])
    aligned = np.dtype([("a", np.int16), ("b", np.int64)], align=True)
    words = {
        array_words(dtype, 1, is_writable=True),
        array_words(aligned, 1, is_writable=True),
        array_words(aligned, 1, is_writable=False),
        array_words(aligned, 2, is_writable=False),
        array_words(np.dtype(np.int64), 1, is_writable=True),
        array_words(np.dtype(np.uint64), 1, is_writable=True),
        tuple_words(Pair, 2),
        tuple_words(tuple, 2),
    }

    assert len(words) == 8
    assert array_words(np.dtype((np.record, aligned)), 1, is_writable=True) in words


def test_an_error_of_machine_code_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.records.kernels.loaded.cache_folders", lambda: (tmp_path,))
    stamp = current_stamp()
    assert stamp is not None
    for status in (0, 1, -1, -2):
        code = b"\xb8" + status.to_bytes(4, "little", signed=True) + b"\xc3"  # mov eax, status; ret
        image = Image(code, entry=0, inner=(), outer=(), parameters="q", result="", is_tuple=False)
        (tmp_path / file_name(f"made.up{status}", ["int"])).write_bytes(to_file(image, stamp))

    assert LoadedKernel("made.up0")((5,)) is None
    assert LoadedKernel("made.up-2")((5,)) is None
    for status in (1, -1):
        with pytest.raises(RuntimeError, match=f"ended with status {status}"):
            LoadedKernel(f"made.up{status}")((5,))
    assert LoadedKernel("made.up0")((True,)) is MISSING


def test_a_kernel_that_numba_has_compiled_but_cannot_be_an_image_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain Python took longer than loading it would have taken."""
    monkeypatch.setattr("stratalog.records.kernels.loaded.cache_folders", lambda: (tmp_path,))
    stamp = current_stamp()
    assert stamp is not None
    path = tmp_path / file_name("made.up", ["int"])
    path.write_bytes(to_file(NEEDS_NUMBA, stamp))

    assert LoadedKernel("made.up")((5,)) is UNKNOWN
    path.write_bytes(to_file(NEEDS_NUMBA, "of older sources"))
    assert LoadedKernel("made.up")((5,)) is MISSING
