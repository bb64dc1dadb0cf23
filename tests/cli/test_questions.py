"""Questions about records where something is wrong: paths, permissions, pipes; and they change nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.fixtures.catalog import log_dirs
from tests.jobs.reading.making import as_nobody
from tests.manager.running import contents, fixture_copy
from tests.waiting import PATIENCE_S

QUESTIONS = ["groups", "offsets", "transactions"]
questions = pytest.mark.parametrize("command", QUESTIONS)


@questions
@pytest.mark.parametrize("state", ["clean", "killed"])
def test_nothing_is_changed(command: str, state: str, tmp_path: Path) -> None:
    root = fixture_copy(state, tmp_path / "data")
    before = contents(root)

    assert main.run([command, str(root)]) == 0

    assert contents(root) == before


@questions
@pytest.mark.parametrize("root", log_dirs(), ids=lambda root: "-".join(root.parts[-3:-1]))
def test_what_each_broker_left_is_answered(command: str, root: Path) -> None:
    assert main.run([command, str(root)]) == 0


@questions
@pytest.mark.parametrize(
    ("path", "says"), [("/no/such/place", "does not exist"), (__file__, "is not a directory")]
)
def test_a_path_that_is_not_a_directory_is_wrong_usage(
    command: str, path: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([command, path]) == 2
    assert f"{path} {says}" in capsys.readouterr().err


@questions
def test_an_empty_directory_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([command, str(tmp_path)]) == 3
    assert "contains no partition directory" in capsys.readouterr().err


@questions
def test_no_directory_is_wrong_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([command]) == 2
    assert "name the log directories" in capsys.readouterr().err


@questions
def test_the_directories_are_those_of_a_server_properties(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={root}\n")

    assert main.run([command, "--config", str(properties), "--summary"]) == 0
    assert "Summary" in capsys.readouterr().out


@questions
def test_a_directory_without_permission_fails(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    main.run([command, str(root)])  # whatever is imported late, another user may not read
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders are closed to other users
        copy = Path(shutil.copytree(root, Path(folder) / "logs"))
        copy.chmod(0)
        capsys.readouterr()
        with as_nobody():
            assert main.run([command, str(copy)]) == 3

    assert "Permission denied" in capsys.readouterr().err


@questions
def test_a_closed_pipe_ends_it_quietly(command: str, tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    line = f"{sys.executable} -m stratalog.cli.main {command} {root} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert done.stdout.strip() in ("0", "141")
    assert "Traceback" not in done.stderr
