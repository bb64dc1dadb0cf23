"""The manners of commands on log directories: what they answer to mistakes and to a small world."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from tests.fixtures.catalog import log_dirs
from tests.manager.running import contents, fixture_copy
from tests.operations.test_recover_owners import as_nobody, reachable
from tests.profile import DEEP, current
from tests.waiting import PATIENCE_S

__all__ = ["reachable"]

LOOKING = {
    "doctor": ["doctor"],
    "du": ["du"],
    "du of keys": ["du", "--topic", "rolled", "--keys"],
    "estimate": ["estimate", "--topic", "rolled"],
    "explain": ["explain", "--topic", "rolled"],
    "ls": ["ls"],
    "ls of a topic": ["ls", "--topic", "rolled"],
    "quarantine": ["quarantine", "list"],
}
# A topic whose settings are in the cluster's metadata: others are refused.
KNOWN = ["--topic", "__share_group_state"]
EVERY = {
    **LOOKING,
    "compact": ["compact", "--dry-run", *KNOWN],
    "erase": ["erase", "--dry-run", "--topic", "rolled", "--key", "k"],
    "index": ["index", "--dry-run"],
    "quarantine purge": ["quarantine", "purge", "--all", "--dry-run"],
    "retain": ["retain", "--purge", "--dry-run", *KNOWN],
}
# All that take several directories.
TWICE = {
    **EVERY,
    "audit": ["audit"],
    "cat": ["cat", "rolled"],
    "format": ["format", "--dry-run"],
    "groups": ["groups"],
    "offsets": ["offsets"],
    "recover": ["recover", "--dry-run"],
    "transactions": ["transactions"],
}
# These start a process, which takes a second.
IN_PROCESSES = EVERY if current() == DEEP else {name: EVERY[name] for name in ("du", "ls", "index", "retain")}
(LOGS,) = log_dirs("4.3.1", "clean")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return fixture_copy("clean", tmp_path / "data")


@pytest.mark.parametrize("name", TWICE)
def test_one_directory_was_read_twice_if_a_link_named_it_too(
    name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(data)
    before = contents(data)

    assert main.run([*TWICE[name], str(data), str(link)]) == 2

    assert f"{link} and {data} are one directory: name it once." in capsys.readouterr().err
    assert contents(data) == before


@pytest.mark.parametrize("name", EVERY)
def test_a_path_that_is_not_there_is_wrong_usage(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere"

    assert main.run([*EVERY[name], str(path)]) == 2

    assert f"{path} does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("name", EVERY)
def test_a_file_is_wrong_usage(name: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "meta.properties"

    assert main.run([*EVERY[name], str(path)]) == 2

    assert f"{path} is not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", EVERY)
def test_an_empty_directory_is_refused_with_the_likely_mistake(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*EVERY[name], str(tmp_path)]) == 3

    assert "whether the disk is mounted here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", LOOKING)
def test_a_directory_in_use_is_read_and_nothing_is_changed(name: str, data: Path) -> None:
    before = contents(data)

    with DirectoryLock(data):
        assert main.run([*LOOKING[name], str(data)]) == 0

    assert contents(data) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit"],
        ["cat"],
        ["compact", "--dry-run"],
        ["du"],
        ["erase", "--dry-run", "--key", "k"],
        ["estimate"],
        ["explain"],
        ["index", "--dry-run"],
        ["ls"],
        ["offsets"],
        ["retain", "--dry-run"],
        ["transactions"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_name_of_a_topic_and_of_a_partition_was_read_as_one_or_both(
    arguments: list[str], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(data / "rolled-0", data / "rolled-0-0")
    named = [*arguments, str(data), "--topic"]

    assert main.run([*named, "rolled-0"]) == 2

    told = capsys.readouterr()
    assert "rolled-0 is the name of a topic here, and also of partition 0 of topic rolled" in told.err
    assert told.out == ""
    assert main.run([*named, "rolled-0-0"]) != 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("name", EVERY)
def test_a_directory_that_this_user_may_not_read_is_refused_in_words(
    name: str, reachable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", reachable / "data")
    data.chmod(0o700)

    with as_nobody():
        assert main.run([*EVERY[name], str(data)]) == 3

    told = capsys.readouterr()
    assert told.out == ""
    assert str(data) in told.err
    assert "Permission denied" in told.err


# Not `estimate`: which of the keys with equally many versions it names differs from run to run.
@pytest.mark.parametrize("name", sorted(EVERY.keys() - {"estimate"}))
def test_on_sixty_columns_no_word_is_broken(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.run([*EVERY[name], str(LOGS)]) == 0
    words = set(capsys.readouterr().out.translate({ord(frame): " " for frame in "│┃"}).split())
    monkeypatch.setenv("COLUMNS", "60")

    assert main.run([*EVERY[name], str(LOGS)]) == 0

    narrow = capsys.readouterr().out
    assert {word for word in words if word[0].isalnum()} <= set(narrow.split())
    assert [line for line in narrow.splitlines()[:-1] if len(line) > 60 and str(LOGS) not in line] == []


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_without_a_terminal_there_are_no_control_characters(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stratalog.cli.main", *EVERY[name], str(LOGS)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", EVERY)
def test_ctrl_c_stops_with_130_and_a_word(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stratalog.files.reading.DiskReader.list_directory", interrupt)

    assert main.run([*EVERY[name], str(LOGS)]) == 130

    assert capsys.readouterr().err.strip().endswith("stopped")


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_a_reader_that_has_gone_is_no_error(name: str) -> None:
    command = f"{sys.executable} -m stratalog.cli.main {' '.join(EVERY[name])} {LOGS}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.stdout.strip() in ("0", "141")


@pytest.mark.parametrize("name", sorted(EVERY.keys() - LOOKING.keys()))
@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_a_directory_in_use_is_not_changed(
    name: str, options: list[str], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(data)
    command = [word for word in EVERY[name] if word != "--dry-run"]

    with DirectoryLock(data):
        assert main.run([*command, *options, str(data)]) == 3

    assert "has it open already" in capsys.readouterr().err
    assert contents(data) == before
