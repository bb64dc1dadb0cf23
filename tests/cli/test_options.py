"""The options that commands share: the same everywhere, and old spellings give a hint."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from stratalog.cli import main
from stratalog.cli.main import cli
from tests.cli.planting import Planted
from tests.log.model import NOW
from tests.manager.running import contents, fixture_copy

ON_DIRECTORIES = ["compact", "erase", "estimate", "explain", "export", "index", "recover", "retain"]
BY_SETTINGS = ["compact", "erase", "estimate", "explain", "index", "recover", "retain"]
CHANGING = ["compact", "erase", "index", "retain"]


def options(name: str) -> set[str]:
    return options_of(cli.commands[name])


def options_of(command: click.Command) -> set[str]:
    return {
        parameter.opts[-1]
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
    }


def takers(option: str) -> list[str]:
    """The commands with an option; a group stands for its commands if it has several and all have it."""
    found = []
    for name, command in sorted(cli.commands.items()):
        below = sorted(command.commands.items()) if isinstance(command, click.Group) else [("", command)]
        having = [sub for sub, each in below if option in options_of(each)]
        is_whole = len(having) == len(below) > 1
        found += [name] if is_whole else [f"{name} {sub}".rstrip() for sub in having]
    return found


@pytest.mark.parametrize("name", ON_DIRECTORIES)
def test_directories_are_named_as_arguments_or_by_the_broker_s_file(name: str) -> None:
    arguments = [each for each in cli.commands[name].params if isinstance(each, click.Argument)]

    assert [(each.name, each.nargs, each.required) for each in arguments] == [("directories", -1, False)]
    assert "--config" in options(name)


@pytest.mark.parametrize("name", ON_DIRECTORIES)
def test_all_but_recover_take_topics_by_name(name: str) -> None:
    assert ("--topic" in options(name)) == (name != "recover")


@pytest.mark.parametrize("name", ON_DIRECTORIES)
def test_a_report_can_be_had_in_three_forms(name: str) -> None:
    assert {"--json", "--plain", "--summary"} <= options(name)


@pytest.mark.parametrize("command", ["retain", "compact", "estimate", "explain", "recover", "erase", "index"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_every_report_ends_with_a_verdict(
    command: str, dry_run: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, t={"cleanup.policy": "compact,delete", "retention.ms": 1000}) as planted:
        planted.fill("t", 12, timestamp=NOW - 5000)
    given = {"erase": ["--topic", "t", "--key", "0"]}.get(command, [])
    if dry_run and command not in ("estimate", "explain"):
        given.append("--dry-run")
    moment = [] if command == "recover" else ["--now", str(NOW)]

    settings = ["--topic-settings", str(planted.settings)]
    assert main.run([command, str(planted.data), *given, *moment, *settings, "--summary"]) == 0

    *_, last = capsys.readouterr().out.splitlines()
    looks = command in ("estimate", "explain")
    expected = "Nothing was changed." if looks else "`stratalog format` prepares them for a broker"
    assert expected.lower() in last.lower()


def test_the_manual_says_which_commands_take_which_options() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    _, _, text = manual.partition("These options are shared by several commands:\n\n")
    rows = [line.strip("| ").split(" | ") for line in text.partition("\n\n")[0].splitlines()[2:]]

    assert len(rows) > 5
    for given, commands in rows:
        for option in given.split(", "):
            assert commands.replace("`", "").split(", ") == takers(option.strip("`")), option


@pytest.mark.parametrize("name", BY_SETTINGS)
def test_settings_of_topics_have_one_name(name: str) -> None:
    assert "--topic-settings" in options(name)


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_directories_can_be_tried_and_can_recover_first(name: str) -> None:
    assert {"--dry-run", "--recover"} <= options(name)


@pytest.mark.parametrize("name", BY_SETTINGS)
def test_settings_of_topics_that_are_not_utf_8_are_wrong_usage(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.json").write_bytes(b'{"t\xff": {}}')
    given = ["--topic", "t", "--key", "0"] if name == "erase" else []

    arguments = [name, str(tmp_path), *given, "--topic-settings", str(tmp_path / "settings.json")]
    assert main.run(arguments) == 2

    assert "settings.json is not UTF-8: byte 3 is wrong." in capsys.readouterr().err


@pytest.mark.parametrize("name", BY_SETTINGS)
def test_the_old_name_of_topic_settings_is_told(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--topic", "t"] if name == "erase" else []

    assert main.run([name, str(tmp_path), *given, "--topics", "settings.json"]) == 2

    assert "--topics is now --topic-settings" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["explain", "estimate", "retain", "compact"])
def test_a_topic_among_the_directories_is_told(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([name, str(tmp_path), "orders"]) == 2

    assert "orders does not exist. A topic is now given by --topic orders." in capsys.readouterr().err


@pytest.mark.parametrize("name", BY_SETTINGS)
def test_settings_of_a_topic_that_is_not_there_were_ignored(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "settings.json"
    given = ["--topic", "seg", "--key", "k"] if name == "erase" else []
    with Planted(tmp_path, seg={}) as planted:
        planted.fill("seg", 5)
    before = contents(planted.data)

    settings.write_text('{"__consumer_offsets": {}, "sgg": {"cleanup.policy": "compact"}}')
    assert main.run([name, str(planted.data), *given, "--topic-settings", str(settings)]) == 2

    assert "sgg, which is not in" in (words := capsys.readouterr().err)
    assert "did you mean seg?" in words
    assert contents(planted.data) == before


def test_records_are_erased_from_several_topics_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, a={}, b={}, c={}) as planted:
        for topic in "abc":
            planted.fill(topic, 6, keys=2)
    given = ["erase", str(planted.data), "--topic-settings", str(planted.settings), "--now", str(NOW)]
    before = planted.contents()

    assert main.run([*given, "--topic", "a", "--topic", "b-0", "--key", "1"]) == 0

    changed = {name.split("/")[0] for name, data in planted.contents().items() if before.get(name) != data}
    assert changed == {"a-0", "b-0", "stratalog-erased.jsonl", ".kafka_cleanshutdown"}
    assert main.run([*given, "--topic", "a-0", "--topic", "b-0", "--offsets", "1"]) == 2
    assert "offsets belong to one partition" in capsys.readouterr().err


def test_explain_takes_the_directories_of_the_broker_s_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, a={}, b={}) as planted:
        planted.fill("a", 6)
        planted.fill("b", 6)
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={planted.data}\n")

    assert main.run(["explain", "--config", str(properties), "--topic", "b"]) == 0

    shown = capsys.readouterr().out
    assert "b-0: cleanup.policy" in shown
    assert "a-0" not in shown


def test_seconds_were_taken_for_milliseconds_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Planted(tmp_path, a={}) as planted:
        planted.fill("a", 5)

    assert main.run(["offsets", str(planted.data), "--time", "1794960494"]) == 0

    assert capsys.readouterr().err == (
        "1794960494 counts as milliseconds, so it is a time in 1970. "
        "If 2026-11-18 is meant, write 1794960494000.\n"
    )
    assert main.run(["offsets", str(planted.data), "--time", "1794960494000"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("where", [["DIR", ""], [""]])
@pytest.mark.parametrize(
    "command",
    [*ON_DIRECTORIES, "append", "audit", "cat", "doctor", "du", "groups", "ls", "offsets", "transactions"],
)
def test_an_empty_argument_was_taken_for_the_current_directory(
    command: str,
    where: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command == "append" and len(where) > 1:
        return  # it has one directory
    data = fixture_copy("clean", tmp_path / "data")
    monkeypatch.chdir(data)
    before = contents(data)

    assert main.run([command, *(each and str(data) for each in where)]) == 2

    assert "an argument is empty" in capsys.readouterr().err
    assert contents(data) == before
