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
    assert capsys.readouterr().err == said_by_ls(tmp_path, capsys)


def said_by_ls(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main.run(["ls", str(root)]) == 3
    return capsys.readouterr().err


@pytest.mark.parametrize("command", [*QUESTIONS, "cat"])
def test_a_folder_of_other_programs_was_answered_as_a_log_directory(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "llvm-14").mkdir()
    (tmp_path / "llvm-14" / "llvm.conf").touch()
    (tmp_path / "passwd").touch()

    assert main.run([command, str(tmp_path)]) == 3

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == said_by_ls(tmp_path, capsys)


@pytest.mark.parametrize("command", [*QUESTIONS, "cat"])
def test_the_parent_of_log_directories_is_refused_with_their_names(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    assert main.run([command, str(tmp_path)]) == 3

    said = capsys.readouterr().err
    assert f"it contains a log directory: name that directory: {root}." in said
    assert said == said_by_ls(tmp_path, capsys)


@pytest.mark.parametrize("command", [*QUESTIONS, "cat"])
@pytest.mark.parametrize("below", ["", "__consumer_offsets-0"])
def test_copies_of_partitions_and_a_single_partition_are_answered(
    command: str, below: str, tmp_path: Path
) -> None:
    (root,) = log_dirs("4.3.1", "clean")
    for name in ("rolled-0", "__consumer_offsets-0"):
        shutil.copytree(root / name, tmp_path / name)

    assert main.run([command, str(tmp_path / below)]) == 0


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
