"""Directories that were shut down cleanly and damaged afterwards: reported, foreseen, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog.cli import main
from tests.directory.refused import CHECKPOINTS, ID
from tests.manager.running import contents, fixture_copy

ACTIVE = f"rolled-0/{72:020d}.log"
EPOCHS = "rolled-0/leader-epoch-checkpoint"
LATER = 4_000_000_000_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return fixture_copy("clean", tmp_path / "data")


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"rolled": {"cleanup.policy": "delete", "retention.ms": 1}}))
    return path


class Told:
    """The outcome of a command: its status, its document if it has one, its words."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        self.status = main.run([*map(str, arguments), "--json"])
        said = capsys.readouterr()
        self.words = said.err
        self.document: dict[str, Any] = json.loads(said.out) if said.out else {}


def both(
    capsys: pytest.CaptureFixture[str], data: Path, settings: Path, command: str = "retain", *more: object
) -> tuple[Told, Told]:
    """The dry run, which changes nothing, and the run."""
    arguments = [command, data, "--topic", "rolled", "--topic-settings", settings, "--now", LATER, *more]
    before = contents(data)
    planned = Told(capsys, *arguments, "--dry-run")
    assert contents(data) == before
    return planned, Told(capsys, *arguments)


def cut_at_a_batch(path: Path, batches: int) -> None:
    data, position = path.read_bytes(), 0
    for _ in range(batches):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    path.write_bytes(data[:position])


def test_recover_was_silent_about_a_log_that_ends_in_the_middle_of_a_batch(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = data / ACTIVE
    log.write_bytes(log.read_bytes()[:-5])
    before = contents(data)

    for more in (["--dry-run"], []):
        told = Told(capsys, "recover", data, *more)

        assert told.status == 1
        assert "run `stratalog recover --all` first" in told.document["verdict"]
        (found,) = [
            found
            for partition in told.document["directories"][0]["partitions"]
            for found in partition["findings"]
            if found["kind"] == "torn_end"
        ]
        assert found["file"] == log.name
    assert contents(data) == before
    assert Told(capsys, "recover", "--all", data).status == 1
    assert Told(capsys, "recover", data).status == 0


def test_recover_was_silent_about_a_log_that_ends_before_its_recovery_point(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_at_a_batch(data / ACTIVE, 1)

    for more in (["--dry-run"], []):
        told = Told(capsys, "recover", data, *more)

        assert told.status == 1
        (problem,) = told.document["directories"][0]["problems"]
        assert problem["name"] == "rolled-0"
        assert "its recovery point is 80, though the directory was shut down cleanly" in problem["words"]


def test_recover_says_nothing_of_a_clean_directory(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Told(capsys, "recover", data).status == 0


@pytest.mark.parametrize("size", [300, -5])
def test_a_dry_run_did_not_foresee_that_a_log_cut_short_is_refused(
    data: Path, settings: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    log = data / ACTIVE
    log.write_bytes(log.read_bytes()[:size])
    before = contents(data)

    planned, done = both(capsys, data, settings)

    assert planned.status == done.status == 3
    assert planned.document["directories"] == done.document["directories"]
    assert f"Run `stratalog recover --all {data}` first." in planned.words
    assert planned.words == done.words
    assert contents(data) == before  # not even a snapshot is gone


@pytest.mark.parametrize("more", [["--offsets", "2"], ["--offsets", "75"]])
def test_erase_worked_on_a_log_that_ends_in_the_middle_of_a_batch(
    data: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    log = data / ACTIVE
    log.write_bytes(log.read_bytes()[:-5])
    before = contents(data)

    for dry_run in (["--dry-run"], []):
        told = Told(capsys, "erase", data, "--topic", "rolled-0", *more, *dry_run)

        assert told.status == 3
        assert told.document["directories"][0]["partitions"][0]["files"] == []
        assert f"Run `stratalog recover --all {data}` first." in told.words
        assert told.document["verdict"].endswith(
            "can be started, but run `stratalog recover --all` first, which repairs rolled-0."
        )
    assert contents(data) == before


def test_the_verdict_of_retain_did_not_say_that_a_log_must_be_recovered_first(
    data: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = data / ACTIVE
    log.write_bytes(log.read_bytes()[:-5])

    for told in both(capsys, data, settings):
        assert told.document["verdict"].endswith(
            "can be started, but run `stratalog recover --all` first, which repairs rolled-0."
        )


@pytest.mark.parametrize("content", [bytes(8), b"0\n1\na b\n"])
def test_garbled_leader_epochs_left_retain_unfinished(
    data: Path, settings: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (data / EPOCHS).write_bytes(content)
    before = contents(data)

    planned, done = both(capsys, data, settings)

    assert planned.status == done.status == 3
    assert planned.document["directories"] == done.document["directories"]
    assert planned.document["directories"][0]["error"] is None
    assert "which rewrites it" in done.words
    assert contents(data) == before
    assert Told(capsys, "recover", "--all", data).status in (0, 1)
    planned, done = both(capsys, data, settings)
    assert planned.status == done.status == 0
    assert done.document["totals"]["segments_deleted"] > 0


@pytest.mark.parametrize("command", ["retain", "compact", "erase"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_garbled_checkpoint_was_rewritten_without_a_word(
    data: Path, settings: Path, capsys: pytest.CaptureFixture[str], name: str, command: str
) -> None:
    (data / name).write_bytes(bytes(8))
    before = contents(data)

    more = ["--key", "k"] if command == "erase" else []
    planned, done = both(capsys, data, settings, command, *more)

    assert planned.status == done.status == 3
    assert planned.words == done.words
    assert f"Run `stratalog recover --all {data}` first, which rewrites it." in done.words
    assert contents(data) == before


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_that_a_broker_takes_for_empty_is_told(
    data: Path, settings: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (data / name).write_bytes(b"0\n1\nrolled 0 many\n")

    planned, done = both(capsys, data, settings)

    # The cleaner of a broker ends because of its checkpoint.
    assert planned.status == done.status == (3 if name == "cleaner-offset-checkpoint" else 0)
    assert planned.document["directories"] == done.document["directories"]
    for told in (planned, done):
        assert "It is treated as empty, as a broker treats it: " in told.words


@pytest.mark.parametrize("command", ["retain", "erase"])
def test_a_dry_run_tripped_over_a_topic_id_that_the_run_repairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    data = fixture_copy("killed", tmp_path / "data")
    (data / ID).write_bytes(bytes(43))
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    arguments = [command, data, "--config", properties, "--topic", "rolled", "--now", LATER, "--recover"]
    arguments += ["--offsets", "80"] if command == "erase" else []
    arguments = [
        str(each).replace("rolled", "rolled-0") if command == "erase" else each for each in arguments
    ]

    planned = Told(capsys, *arguments, "--dry-run")
    done = Told(capsys, *arguments)

    assert planned.status == done.status == 1
    keys = ("partition", "refused", "error", "deleted", "records")
    assert [
        {key: found.get(key) for key in keys} for found in planned.document["directories"][0]["partitions"]
    ] == [{key: found.get(key) for key in keys} for found in done.document["directories"][0]["partitions"]]


def test_a_garbled_topic_id_of_a_clean_directory_refuses_its_partition_alone(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / ID).write_bytes(bytes(43))
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")

    for more in (["--dry-run"], []):
        told = Told(capsys, "retain", "--config", properties, "--now", LATER, *more)

        assert told.status == 3
        refused = {
            found["partition"]
            for found in told.document["directories"][0]["partitions"]
            if found["refused"] is not None
        }
        assert refused == {"rolled-0"}


def test_a_log_that_ends_before_its_start_was_deleted_without_being_named(
    data: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "log-start-offset-checkpoint").write_text("0\n1\nrolled 0 900\n")
    before = contents(data)

    planned, done = both(capsys, data, settings)

    assert planned.status == done.status == 3
    assert planned.document["directories"] == done.document["directories"]
    assert "rolled-0: it ends at offset 80, before its start at 900" in done.words
    assert contents(data) == before
