"""`stratalog recover`: exit status, report, refusals."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from stratalog.files.lock import DirectoryLock
from tests.cli.recovering import run, tear
from tests.fixtures import catalog

MARKER = ".kafka_cleanshutdown"
DOCUMENT = Path(__file__).parents[2] / "docs" / "recover.md"


@pytest.fixture
def properties(killed: Path, tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker,controller\nlog.dirs={killed}\n"
        "log.index.size.max.bytes=4096\nlog.index.interval.bytes=512\n"
    )
    return file


def test_a_killed_brokers_directory_is_recovered(properties: Path, killed: Path) -> None:
    assert run("--config", properties) == 0

    assert json.loads((killed / MARKER).read_text()) == {"version": 0, "brokerEpoch": -1}


def test_a_dry_run_tells_the_same_and_leaves_all_as_it_is(properties: Path, killed: Path) -> None:
    tear(killed)
    before = {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()}

    assert run("--config", properties, "--dry-run") == 1

    assert {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()} == before


def test_a_directory_in_use_is_refused_with_3(
    properties: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DirectoryLock(killed):
        assert run("--config", properties) == 3

    assert f"{killed}: this process has it open" in capsys.readouterr().err
    assert not (killed / MARKER).exists()


def test_a_directory_that_fails_is_told_with_3(
    properties: Path, killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with properties.open("a") as file:
        file.write(f"log.dirs={killed},{tmp_path / 'unmounted'}\n")

    assert run("--config", properties) == 3

    assert "unmounted: failed, no clean-shutdown file was written" in capsys.readouterr().err
    assert (killed / MARKER).exists()


def test_a_recovered_directory_is_clean(properties: Path) -> None:
    run("--config", properties)

    assert run("--config", properties) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--quarantine", ".", "--no-quarantine", "."],
        ["--keep-open-transactions", "."],
        ["--readers", "0", "."],
        ["--config", "no-such-file"],
    ],
)
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    assert run(*arguments) == 2


def test_a_crash_of_the_process_is_about_all_directories(properties: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    assert run(tmp_path / "other", "--config", properties, "--process-crash") == 2


def test_the_operators_page_has_the_exit_codes_and_every_option_it_speaks_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--help") == 0

    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert set(re.findall(r"--[a-z][a-z-]+", DOCUMENT.read_text())) <= known


def test_the_python_example_of_the_operators_page_runs(
    killed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    tear(killed)
    monkeypatch.chdir(killed.parent)

    exec(compile(example, "recover.md", "exec"), {})

    assert "rolled-0 00000000000000000088.log 1025" in capsys.readouterr().out


def all_files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--all"]])
def test_the_parent_of_two_log_directories_gets_no_clean_shutdown_file_and_no_segments(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = catalog.log_dirs("4.3.1", "killed")
    for name in ("data-1", "data-2"):
        shutil.copytree(source, tmp_path / name)
    before = all_files(tmp_path)

    assert run(tmp_path, *options) == 3

    assert all_files(tmp_path) == before
    told = capsys.readouterr().err
    assert f"it contains 2 log directories: name them: {tmp_path}/data-1, {tmp_path}/data-2." in told


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_an_empty_directory_gets_no_clean_shutdown_file(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *options) == 3

    assert all_files(tmp_path) == []
    assert "it is empty. Check log.dirs, and whether the disk is mounted here." in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_system_folder_gets_no_clean_shutdown_file_and_no_segments(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("bin", "llvm-14/lib", "gcc-12/include"):
        (tmp_path / name).mkdir(parents=True)
    before = all_files(tmp_path)

    assert run(tmp_path, *options) == 3

    assert all_files(tmp_path) == before
    assert f"{tmp_path} is not a log directory" in capsys.readouterr().err


def test_beside_a_log_directory_an_empty_one_fails_alone(killed: Path, tmp_path: Path) -> None:
    (tmp_path / "unmounted").mkdir()

    assert run(killed, tmp_path / "unmounted") == 3

    assert (killed / MARKER).exists()
    assert all_files(tmp_path / "unmounted") == []


def test_beside_a_folder_of_something_else_nothing_is_recovered(killed: Path, tmp_path: Path) -> None:
    (tmp_path / "system" / "bin").mkdir(parents=True)
    before = all_files(killed)

    assert run(killed, tmp_path / "system") == 3

    assert all_files(killed) == before  # not even a lock


def test_a_brokers_directory_without_meta_properties_is_told_with_3(
    properties: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (killed / "meta.properties").unlink()

    for options in (["--dry-run"], []):
        assert run("--config", properties, *options) == 3
        last = capsys.readouterr().out.splitlines()[-1]
        assert f"the broker must not be started yet: it refuses to start because of {killed}" in last.replace(
            "The broker", "the broker"
        )
    assert (killed / MARKER).exists()


def test_cuts_beside_what_keeps_a_broker_from_starting_are_told_with_3(
    properties: Path, killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tear(killed)
    (killed / "lost+found").mkdir()

    assert run("--config", properties, "--json") == 3

    document = json.loads(capsys.readouterr().out)
    assert document["may_start"] is False
    assert document["verdict"].endswith("fix that, and run `stratalog recover` again.")
    (refusal,) = document["refusals"]
    assert (refusal["name"], refusal["remedy"]) == ("lost+found", "Move it out of the log directory.")


def test_the_verdict_is_the_last_line(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--config", properties) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "The broker can be started: nothing is lost."
