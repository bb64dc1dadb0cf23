"""`stratalog index`: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.cli import main
from tests.manager.running import contents, fixture_copy


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = fixture_copy("clean", tmp_path / "data")
    (root / "rolled-0" / f"{20:020d}.index").unlink()
    return root


def test_a_missing_index_is_rebuilt_after_a_dry_run(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(data)
    assert main.run(["index", str(data), "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert contents(data) == before

    assert main.run(["index", str(data), "--json"]) == 0

    done = json.loads(capsys.readouterr().out)
    assert done["directories"] == plan["directories"]
    assert done["totals"]["indexes_rebuilt"] == 1
    assert (data / "rolled-0" / f"{20:020d}.index").exists()


def test_the_table_says_why(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["index", str(data), "--plain"]) == 0

    assert f"rolled-0\t{20:020d}.index\tmissing\t" in capsys.readouterr().out


def test_a_second_run_has_nothing_to_do(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.run(["index", str(data)])
    before = contents(data)

    assert main.run(["index", str(data)]) == 0

    assert contents(data) == before
    assert "nothing to do" in capsys.readouterr().err


def test_a_topic_by_name(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["index", str(data), "--topic", "codecs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["indexes_rebuilt"] == 0
    assert main.run(["index", str(data), "--topic", "nothing"]) == 2


def test_an_unclean_directory_is_refused_unless_it_is_recovered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = fixture_copy("killed", tmp_path / "data")
    before = contents(root)

    assert main.run(["index", str(root)]) == 3
    assert "was not shut down cleanly" in capsys.readouterr().err
    assert contents(root) == before
    assert main.run(["index", str(root), "--recover"]) in (0, 1)
