"""tools/deep.py: each test belongs to one part, and a run goes on where the last one was stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import deep


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two parts: `top` passes, and `log` passes if the file `good` is beside the checkout."""
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "src" / "module.py").write_text("")
    (root / ".gitignore").write_text(".deep/\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    asked = "import os, sys; print('1 counted'); sys.exit(not os.path.exists('../good'))"
    commands = {"top": "print('1 passed')", "log": asked}
    made = {
        name: deep.Part(name=name, command=(sys.executable, "-c", code)) for name, code in commands.items()
    }
    monkeypatch.setattr(deep, "parts", lambda *_: made)
    return root


def results(tree: Path) -> dict[str, float]:
    """The time at which each part was last run."""
    return {path.stem: path.stat().st_mtime_ns for path in tree.glob(".deep/*/*.json")}


def test_each_test_file_is_in_a_part_once() -> None:
    files: list[str] = []
    for part in deep.parts(deep.ROOT, 1).values():
        if part.compiled and part.name != "spark-shared":
            for argument in part.command:
                path = deep.ROOT / argument
                if argument.startswith("tests/"):
                    files += map(str, [path] if path.is_file() else path.rglob("test_*.py"))

    assert sorted(files) == sorted(map(str, (deep.ROOT / "tests").rglob("test_*.py")))


def test_what_has_passed_is_not_run_again(tree: Path, tmp_path: Path) -> None:
    assert deep.main([], tree) == 1
    before = results(tree)
    (tmp_path / "good").touch()

    assert deep.main([], tree) == 0
    after = results(tree)
    assert (before["top"], before["log"]) == (after["top"], before["log"])
    assert after["log"] > before["log"]


def test_after_a_change_every_part_is_run_again(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "good").touch()
    assert deep.main([], tree) == 0
    (tree / "src" / "module.py").write_text("VALUE = 1\n")

    assert deep.main(["--list"], tree) == 1
    assert deep.main([], tree) == 0
    assert len(list(tree.glob(".deep/*/*.json"))) == 4


def test_what_a_part_prints_is_kept(tree: Path) -> None:
    deep.main(["log"], tree)

    (kept,) = tree.glob(".deep/*/log.txt")
    assert kept.read_text() == "1 counted\n"


def test_a_list_runs_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deep.main(["--list"], tree) == 1

    assert results(tree) == {}
    assert "0 of 2 parts have passed" in capsys.readouterr().out


def test_the_full_counts_are_asked_for() -> None:
    known = deep.parts(deep.ROOT, 2)

    assert {name for name, part in known.items() if part.environment()["STRATALOG_PROFILE"] != "deep"} == {
        "uncompiled"
    }
    assert known["uncompiled"].environment()["NUMBA_DISABLE_JIT"] == "1"
