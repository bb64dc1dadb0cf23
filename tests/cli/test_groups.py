"""`stratalog groups`: what it prints; tests/questions/test_groups.py has the answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.fixtures.catalog import log_dirs

(CLEAN,) = map(str, log_dirs("4.3.1", "clean"))


def test_groups_are_tables_with_a_sentence_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["groups", CLEAN, "--plain"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# Groups"
    assert "without-members\trolled-0\t7\t80\t73" in "\n".join(lines)
    assert lines[-1].startswith("5 groups: ")


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["groups", CLEAN, "--json", "--group", "without-members"]) == 0

    document = json.loads(capsys.readouterr().out)
    (commit,) = document["commits"]
    assert (commit["topic"], commit["committed_offset"], commit["lag"]) == ("rolled", 7, 73)
    assert document["totals"]["groups"] == 1


@pytest.mark.parametrize("data", [b"", bytes(43), b"version: 0\n"], ids=["empty", "zeros", "cut"])
def test_a_damaged_partition_metadata_does_not_stop_readers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    """A file of another topic stopped `groups`, and `cat` of its own topic."""
    root = shutil.copytree(CLEAN, tmp_path / "data")
    commands = (["groups"], ["cat", "--topic", "rolled", "-e"])
    healthy = []
    for command, *options in commands:
        assert main.run([command, str(root), *options]) == 0
        healthy.append(capsys.readouterr().out)
    (root / "rolled-0" / "partition.metadata").write_bytes(data)

    for (command, *options), expected in zip(commands, healthy, strict=True):
        assert main.run([command, str(root), *options]) == 0
        assert capsys.readouterr().out == expected


def test_a_wrong_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["groups", CLEAN, "--group", "nobody"]) == 2
    assert "--group names nobody" in capsys.readouterr().err
