"""One rule for exit statuses: 2 for wrong usage, 3 if the run is refused or fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.files.lock import DirectoryLock
from tests.directory.refused import with_second
from tests.log.model import NOW
from tests.manager.running import contents, fixture_copy

KEY = ("--topic", "rolled", "--key", "k")
CHANGING = {"retain": (), "compact": (), "erase": KEY, "index": ()}
LOOKING = {"du": (), "estimate": (), "explain": (), "ls": ()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found = fixture_copy("clean", tmp_path / "data")
    (found / ".lock").unlink(missing_ok=True)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    return tmp_path / "topics.json"


@pytest.mark.parametrize("command", [*CHANGING, *LOOKING, "recover"])
def test_a_path_that_is_not_there_was_2_or_3_by_command(tmp_path: Path, command: str) -> None:
    assert main.run([command, str(tmp_path / "nowhere"), *CHANGING.get(command, ())]) == 2


@pytest.mark.parametrize("command", [*CHANGING, *LOOKING, "recover"])
def test_a_disk_that_is_not_mounted_is_not_a_mistake_in_what_was_typed(tmp_path: Path, command: str) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'nowhere'}\n")

    assert main.run([command, "--config", str(properties), *CHANGING.get(command, ())]) == 3


@pytest.mark.parametrize("command", [*CHANGING, *LOOKING, "recover"])
def test_directories_of_two_nodes_were_2_or_3_by_command(data: Path, command: str) -> None:
    other = with_second(data)
    file = other / "meta.properties"
    file.write_text(file.read_text().replace("node.id=1", "node.id=2"))

    assert main.run([command, str(data), str(other), *CHANGING.get(command, ())]) == 3


@pytest.mark.parametrize("command", [*CHANGING, *LOOKING, "recover"])
@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"rolled": {"retention.mss": 1}}', '{"rolled": {"retention.ms": "soon"}}', '{"a b": {}}'],
)
def test_settings_that_are_wrong_were_2_or_3_by_what_is_wrong(
    data: Path, settings: Path, command: str, text: str
) -> None:
    settings.write_text(text)
    before = contents(data)

    arguments = [command, str(data), "--topic-settings", str(settings), *CHANGING.get(command, ())]

    assert main.run(arguments) == 2
    assert contents(data) == before


def test_an_unknown_setting_is_told_in_words_of_kafka(
    data: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text('{"rolled": {"retention.mss": 1}}')

    main.run(["retain", str(data), "--topic-settings", str(settings)])

    assert capsys.readouterr().err == (
        "stratalog: retention.mss = 1: there is no such setting, retention.ms may be meant.\n"
    )


@pytest.mark.parametrize("dry_run", [["--dry-run"], []])
@pytest.mark.parametrize("command", CHANGING)
@pytest.mark.parametrize("what", ["lost+found", "meta.properties"])
def test_a_broker_that_will_not_start_is_3_though_all_was_done(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    what: str,
    dry_run: list[str],
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    given = [command, "--config", str(properties), "--now", str(NOW), *dry_run, *CHANGING[command]]
    if command != "erase":
        given += ["--topic", "rolled"]
    if what == "lost+found":
        (data / what).mkdir()
    else:
        (data / what).write_bytes(bytes(80))

    assert main.run(given) == 3

    shown = capsys.readouterr().out
    assert "The broker must not be started yet" in shown.splitlines()[-1]
    assert "What keeps a broker from starting" in shown


@pytest.mark.parametrize("command", CHANGING)
@pytest.mark.parametrize("why", ["unclean", "a topic", "two nodes"])
def test_a_refused_run_left_a_new_lock_file(data: Path, command: str, why: str) -> None:
    directories = [data]
    arguments = list(CHANGING[command])
    if why == "unclean":
        (data / ".kafka_cleanshutdown").unlink()
    elif why == "a topic":
        arguments += ["--topic", "nowhere"]
    else:
        directories.append(with_second(data))
        file = directories[1] / "meta.properties"
        file.write_text(file.read_text().replace("node.id=1", "node.id=2"))

    assert main.run([command, *map(str, directories), *arguments]) in (2, 3)

    assert not any((directory / ".lock").exists() for directory in directories)


@pytest.mark.parametrize("command", [*CHANGING, "recover"])
def test_a_lock_file_that_somebody_holds_stays_where_a_run_is_refused(data: Path, command: str) -> None:
    other = with_second(data)
    for directory in (data, other):
        (directory / ".kafka_cleanshutdown").unlink()

    with DirectoryLock(other):
        assert main.run([command, str(data), str(other), *CHANGING.get(command, ())]) == 3

        assert (other / ".lock").exists()
    assert not (data / ".lock").exists()


def test_a_run_with_nothing_to_do_leaves_no_lock_file(data: Path) -> None:
    assert main.run(["erase", str(data), "--topic", "rolled", "--key", "nobody has this key"]) == 0

    assert not (data / ".lock").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "It has no version."), (bytes(80), "It is all zeros."), (b"node.id=1\n", "It has no version.")],
)
def test_a_meta_properties_without_a_version_was_told_as_none(
    data: Path, capsys: pytest.CaptureFixture[str], content: bytes, words: str
) -> None:
    (data / "meta.properties").write_bytes(content)

    assert main.run(["recover", str(data), "--json"]) == 3

    (refusal,) = json.loads(capsys.readouterr().out)["refusals"]
    assert refusal["reason"] == words


def test_zeros_were_told_as_a_row_of_escapes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "recovery-point-offset-checkpoint").write_bytes(bytes(8))

    assert main.run(["recover", str(data), "--json"]) == 3

    (refusal,) = json.loads(capsys.readouterr().out)["refusals"]
    assert refusal["reason"] == "It cannot be read: line 1: the version is 8 zero bytes, only 0 is known."
