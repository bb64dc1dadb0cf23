"""tools/set_up.sh and tools/debian.sh: what they say if they cannot go on; nothing is done twice."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of the project as the script looks at."""
    for name in ("pyproject.toml", "constraints.txt", "tools/set_up.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def set_up(clone: Path, python: Path | str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/bin:/bin", "PYTHON": str(python)}
    command = ["sh", str(clone / "tools" / "set_up.sh")]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def test_without_a_python_it_says_which_is_needed(clone: Path) -> None:
    done = set_up(clone, "no-such-python")

    assert done.returncode == 3
    assert "Python 3.11 or newer" in done.stderr


def test_a_python_without_ensurepip_is_told_with_the_package_that_has_it(clone: Path, tmp_path: Path) -> None:
    script = """case "$2" in *ensurepip*) exit 1 ;; *print*) echo 3.12 ;; esac"""

    done = set_up(clone, program(tmp_path / "python", script))

    assert done.returncode == 3
    assert "ensurepip" in done.stderr
    assert "apt-get install python3.12-venv" in done.stderr


def environment_of(clone: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A Python whose `venv` makes an environment that notes each install, and the file of the notes."""
    notes = tmp_path / "notes"
    inner = program(tmp_path / "inner", f'case "$*" in *"pip install"*) echo "$@" >>{notes} ;; esac')
    venv = clone / ".venv" / "bin"
    script = f'[ "$2" = venv ] && mkdir -p {venv} && cp {inner} {venv}/python; exit 0'
    return program(tmp_path / "python", script), notes


def installs(notes: Path) -> list[str]:
    """Those that decide what is needed; before each of them, two others share the pins."""
    lines = notes.read_text().splitlines()
    deciding = [line for line in lines if "--no-deps" not in line]
    assert len(lines) == 3 * len(deciding)
    return deciding


def test_a_second_run_installs_nothing(clone: Path, tmp_path: Path) -> None:
    python, notes = environment_of(clone, tmp_path)

    assert [set_up(clone, python).returncode for _ in range(3)] == [0, 0, 0]

    (install,) = installs(notes)
    assert "--constraint constraints.txt --editable .[spark,java,dev]" in install


def test_a_changed_pin_is_installed_by_the_next_run(clone: Path, tmp_path: Path) -> None:
    python, notes = environment_of(clone, tmp_path)
    set_up(clone, python)
    with (clone / "constraints.txt").open("a") as pins:
        pins.write("something==1.0\n")

    set_up(clone, python)

    assert len(installs(notes)) == 2


def test_every_pin_is_installed_by_one_of_two_processes(clone: Path, tmp_path: Path) -> None:
    python, _ = environment_of(clone, tmp_path)
    program(tmp_path / "inner", f'case "$*" in *--no-deps*) cat >>{tmp_path}/pins-$$ ;; esac')

    set_up(clone, python)

    first, second = (file.read_text().splitlines() for file in tmp_path.glob("pins-*"))
    pins = [line for line in (clone / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    assert sorted(first + second) == sorted(pins)
    assert abs(len(first) - len(second)) <= 1


def test_an_install_that_failed_is_tried_again(clone: Path, tmp_path: Path) -> None:
    python, notes = environment_of(clone, tmp_path)
    program(tmp_path / "inner", f'case "$*" in *"pip install"*) echo "$@" >>{notes}; exit 1 ;; esac')

    assert [set_up(clone, python).returncode for _ in range(2)] == [1, 1]
    assert len(installs(notes)) == 2


def find_programs(folder: Path, **programs: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """What tools/debian.sh does if PATH has only these programs and a few others, and asks apt-get for."""
    notes = folder / "notes"
    folder.mkdir(exist_ok=True)
    notes.touch()
    for name in ("mktemp", "rm", "tail", "sh", "cat"):
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).symlink_to(str(shutil.which(name)))
    for name, script in programs.items():
        program(folder / "bin" / name.replace("_", "-"), f"echo {name} $* >>{notes}\n{script}")
    done = subprocess.run(
        [str(shutil.which("sh")), str(ROOT / "tools" / "debian.sh")],
        env={"PATH": str(folder / "bin"), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done, [line for line in notes.read_text().splitlines() if line.startswith("apt_get")]


def test_programs_that_are_there_are_not_installed(tmp_path: Path) -> None:
    there = {"google_chrome": "exit 0", "kcat": "exit 0"}
    done, asked = find_programs(tmp_path, **there, apt_get="exit 0", id="echo 0")

    assert (done.returncode, done.stderr, asked) == (0, "", [])


def test_missing_programs_are_installed_by_root(tmp_path: Path) -> None:
    done, asked = find_programs(tmp_path, apt_get="exit 0", id="echo 0")

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.endswith("--no-install-recommends install chromium kcat") for line in asked] == [True]


def test_only_what_is_missing_is_installed(tmp_path: Path) -> None:
    _, asked = find_programs(tmp_path, chromium="exit 0", apt_get="exit 0", id="echo 0")

    assert [line.endswith("install kcat") for line in asked] == [True]


def test_old_lists_of_packages_are_fetched_again(tmp_path: Path) -> None:
    script = f'case "$*" in *update*) : >{tmp_path}/new ;; *) [ -e {tmp_path}/new ] ;; esac'

    done, asked = find_programs(tmp_path, apt_get=script, id="echo 0")

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[-1] for line in asked] == ["kcat", "update", "kcat"]


def test_programs_that_cannot_be_had_are_named_and_not_an_error(tmp_path: Path) -> None:
    done, _ = find_programs(tmp_path / "a", apt_get="echo E: no network; exit 100", id="echo 0")
    other, asked = find_programs(tmp_path / "b", apt_get="exit 0", id="echo 1000")

    assert (done.returncode, other.returncode, asked) == (0, 0, [])
    assert "Could not be installed: chromium kcat: E: no network" in done.stderr
    assert "their tests are skipped" in other.stderr
