"""`stratalog doctor`: what it prints, and its exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.manager.running import fixture_copy


def test_a_broker_may_be_started_on_what_it_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fixture_copy("clean", tmp_path / "data")

    assert main.run(["doctor", str(root)]) == 0

    assert capsys.readouterr().out.endswith("The broker can be started.\n")


def test_a_reason_comes_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (root / "lost+found").mkdir()

    assert main.run(["doctor", str(root), "--json"]) == 3

    document = json.loads(capsys.readouterr().out)
    assert [refusal["name"] for refusal in document["refusals"]] == ["lost+found"]
    assert document["may_start"] is False
    assert "Move it" in document["refusals"][0]["remedy"]


def test_the_directories_are_those_of_a_server_properties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={root}\nnode.id=77\n")

    assert main.run(["doctor", "--config", str(properties), "--plain"]) == 3

    assert "server.properties says node.id=77" in capsys.readouterr().out


def test_an_empty_directory_is_refused_with_the_likely_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["doctor", str(tmp_path)]) == 3
    assert "whether the disk is mounted here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ("broker,controller", "A controller without it begins a new cluster"),
        ("broker", "the broker fetches the cluster's metadata from the controllers"),
    ],
)
def test_who_had_given_config_was_told_to_give_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], roles: str, words: str
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    shutil.rmtree(root / "__cluster_metadata-0")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={root}\nnode.id=1\nprocess.roles={roles}\n")

    main.run(["doctor", "--config", str(properties), "--plain"])

    said = capsys.readouterr().out
    assert "give --config" not in said
    assert "__cluster_metadata-0 is in none of the directories that server.properties names" in said
    assert words in said

    main.run(["doctor", str(root), "--plain"])
    assert "give --config, which names them all" in capsys.readouterr().out


def test_a_node_that_never_started_was_told_to_name_its_other_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    for path in root.iterdir():
        if path.name not in ("meta.properties", "bootstrap.checkpoint"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={root}\nnode.id=1\nprocess.roles=broker,controller\n")

    assert main.run(["doctor", "--config", str(properties), "--plain"]) == 0

    assert capsys.readouterr().out.endswith("The broker can be started.\n")
