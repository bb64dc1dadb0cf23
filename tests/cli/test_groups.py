"""`stratalog groups`: what it prints; tests/questions/test_groups.py has the answers."""

from __future__ import annotations

import json

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


def test_a_wrong_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["groups", CLEAN, "--group", "nobody"]) == 2
    assert "--group names nobody" in capsys.readouterr().err
