"""Directories of a stopped node: refused, recovered first, or only looked at."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.directory.clean_state import CleanState
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.log.task_folders import FOLDER_PREFIX
from tests.cli.planting import EPOCH, MARKER, SET_SIZE, Planted
from tests.cli.retaining import DELAY, run, tear
from tests.directory.refused import with_second
from tests.log.model import NOW
from tests.manager.running import contents, fixture_copy


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """Three segments, by a limit for one."""
    with Planted(
        tmp_path, orders={"retention.bytes": 5 * SET_SIZE, "retention.ms": -1, "file.delete.delay.ms": DELAY}
    ) as planted:
        planted.fill("orders", 15)
    return planted


@pytest.mark.parametrize("how", ["--dry-run", None])
def test_a_directory_in_use_is_refused(planted: Planted, how: str | None) -> None:
    before = planted.contents()

    with DirectoryLock(planted.data):
        assert run(planted, *([how] if how else [])) == 3

    assert planted.contents() == before


# Directories that were not shut down cleanly


@pytest.mark.parametrize("how", ["--dry-run", None])
def test_a_directory_that_was_not_shut_down_cleanly_is_refused_in_one_line(
    planted: Planted, capsys: pytest.CaptureFixture[str], how: str | None
) -> None:
    (planted.data / MARKER).unlink()
    before = planted.contents()

    assert run(planted, *([how] if how else [])) == 3

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"stratalog: {planted.data}: it was not shut down cleanly: .kafka_cleanshutdown is missing. "
        f"Run `stratalog recover {planted.data}` first, or give --recover.\n"
    )
    assert planted.contents() == before


@pytest.mark.parametrize("command", ["retain", "compact", "index"])
def test_the_recover_command_of_a_refusal_names_all_directories_and_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    first = fixture_copy("clean", tmp_path / "disk a" / "logs")
    second = with_second(first)
    (second / MARKER).unlink()
    assert main.run([command, str(first), str(second)]) == 3
    (advice,) = re.findall("`(stratalog recover .*?)` first", capsys.readouterr().err)

    assert shlex.split(advice)[2:] == [str(first), str(second)]
    assert main.run(shlex.split(advice)[1:]) == 0

    assert (second / MARKER).exists()


def test_after_a_recovery_it_is_not_refused_any_more(planted: Planted) -> None:
    (planted.data / MARKER).unlink()
    main.run(["recover", str(planted.data)])

    assert run(planted) == 0

    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == -1
    assert planted.files("orders", ".log") == [f"{10:020d}.log"]


def test_retain_of_one_topic_does_not_cut_another_without_naming_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, a={"retention.ms": 0}, b={"retention.ms": -1}) as planted:
        planted.fill("a", 6, timestamp=NOW - 10)
        planted.fill("b", 6)
    torn = tear(planted, "b", 5)

    assert run(planted, "--topic", "a") == 3
    assert torn.stat().st_size == SET_SIZE + 20
    assert run(planted, "--topic", "a", "--recover", "--json") == 1

    document = capsys.readouterr().out
    recovery = json.loads(document)["recovery"]
    cuts = {found["partition"]: found["cut_bytes"] for found in recovery["directories"][0]["partitions"]}
    assert cuts == {"a-0": 0, "b-0": 20}
    assert planted.files("a", ".log") == [f"{6:020d}.log"]
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == -1


def test_a_log_that_must_be_cut_in_a_clean_directory_is_not_cut_in_passing(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    path = planted.data / "orders-0" / f"{10:020d}.log"
    path.with_suffix(".index").unlink()
    torn = path.read_bytes() + path.read_bytes()[:20]
    path.write_bytes(torn)

    assert run(planted) == 3

    words = capsys.readouterr().err
    assert f"20 bytes of {path.name} must be cut off" in words
    assert f"Run `stratalog recover --all {planted.data}` first." in words
    assert path.read_bytes() == torn
    assert json.loads((planted.data / MARKER).read_text())["brokerEpoch"] == EPOCH


def test_a_log_that_was_cut_short_under_a_clean_shutdown_file_is_refused_with_advice_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    log = data / "rolled-0" / f"{72:020d}.log"
    log.write_bytes(log.read_bytes()[:300])
    settings = tmp_path / "topics.json"
    settings.write_text(json.dumps({"rolled": {"cleanup.policy": "delete", "retention.ms": 1}}))
    retain = ["retain", str(data), "--topic", "rolled", "--topic-settings", str(settings)]

    assert main.run(retain) == 3
    told = capsys.readouterr().err
    assert f"Run `stratalog recover --all {data}` first." in told
    assert "Nothing to do" not in told

    assert main.run(["recover", "--all", str(data)]) == 1
    assert main.run(retain) == 0


@pytest.mark.parametrize("wrong", ["a topic", "a node", "settings"])
def test_what_is_asked_wrongly_is_found_before_recovery_cuts_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    data = fixture_copy("killed", tmp_path / "data")
    other = fixture_copy("killed", tmp_path / "other")
    (other / "meta.properties").write_text(
        (other / "meta.properties")
        .read_text()
        .replace("node.id=1", f"node.id={2 if wrong == 'a node' else 1}")
    )
    settings = tmp_path / "topics.json"
    settings.write_text("{" if wrong == "settings" else "{}")
    before = contents(data), contents(other)
    topic = ["--topic", "nowhere"] if wrong == "a topic" else []

    status = main.run(
        ["retain", "--recover", str(data), str(other), "--topic-settings", str(settings), *topic]
    )

    assert status == (3 if wrong == "a node" else 2), capsys.readouterr().err
    assert (contents(data), contents(other)) == before


def test_recover_beside_a_clean_directory_changes_nothing_but_what_retention_does(planted: Planted) -> None:
    assert run(planted, "--recover") == 0

    assert json.loads((planted.data / MARKER).read_text()) == {"version": 0, "brokerEpoch": EPOCH}
    assert planted.files("orders", ".log") == [f"{10:020d}.log"]


def left_by_a_killed_compaction(root: Path, partition: str) -> Path:
    """As the tasks of `compact --master` leave it if the driver is killed."""
    folder = root / partition / f"{FOLDER_PREFIX}0123"
    (folder / "0-4567").mkdir(parents=True)
    (folder / "0-4567" / f"{0:020d}.log.cleaned").write_bytes(b"a copy of a record")
    return folder


@pytest.mark.parametrize("name", ["retain", "index", "compact", "erase"])
def test_the_folder_of_a_killed_compaction_stayed_until_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Whatever partition it is in, and also in one that waits for its deletion."""
    with Planted(tmp_path, t={}, other={}) as planted:
        planted.fill("t", 11)
        planted.fill("other", 11)
    waiting = "gone-0.0123456789abcdef0123456789abcdef-delete"
    shutil.copytree(planted.data / "other-0", planted.data / waiting)
    left = [left_by_a_killed_compaction(planted.data, each) for each in ("t-0", "other-0", waiting)]
    more = ["--topic", "t", "--key", "no such key"] if name == "erase" else []
    command = [name, str(planted.data), "--topic-settings", str(planted.settings), *more]

    main.run([*command, "--dry-run"])
    said = capsys.readouterr()
    assert all(folder.exists() for folder in left)
    assert "".join(said).count("A run removes it.") == len(left)
    assert "not searched" not in "".join(said)

    main.run(command)
    said = capsys.readouterr()
    assert not any(folder.exists() for folder in left)
    assert (planted.data / MARKER).exists()
    assert "".join(said).count("which was removed.") == len(left)
    assert "not searched" not in "".join(said)


def test_recover_left_the_folders_of_a_killed_compaction(planted: Planted) -> None:
    folder = left_by_a_killed_compaction(planted.data, "orders-0")
    disk = Disk()
    state = CleanState(disk, str(planted.data))
    state.look()
    state.remove()  # as a session does before its first change

    assert main.run(["recover", str(planted.data), "--dry-run"]) == 0
    assert folder.exists()
    assert main.run(["recover", str(planted.data)]) == 0

    assert not folder.exists()
