"""The command in a hint is one that works for this installation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stratalog.installing import command_for, install_command

HERE = Path("/home/a clone")


@pytest.mark.parametrize(
    ("origin", "clone", "command"),
    [
        (None, None, "pip install 'stratalog[spark]'"),
        (None, HERE, "pip install '.[spark]'"),
        (None, Path("/other"), "pip install '/other[spark]'"),
        ({"url": "file:///home/a%20clone", "dir_info": {}}, None, "pip install '.[spark]'"),
        ({"url": "file:///other", "dir_info": {}}, HERE, "pip install '/other[spark]'"),
        (
            {"url": "file:///home/a%20clone", "dir_info": {"editable": True}},
            HERE,
            "pip install -e '.[spark]'",
        ),
        (
            {"url": "file:///tmp/stratalog.whl", "archive_info": {}},
            None,
            "pip install 'stratalog[spark] @ file:///tmp/stratalog.whl'",
        ),
        (
            {"url": "https://host/repository", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            None,
            "pip install 'stratalog[spark] @ git+https://host/repository'",
        ),
    ],
)
def test_the_command_names_where_the_package_came_from(
    origin: dict[str, Any] | None, clone: Path | None, command: str
) -> None:
    assert command_for("spark", origin, clone=clone, here=HERE) == command


def test_hints_named_a_package_that_no_index_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    named = Path(install_command("spark").split("'")[1].removesuffix("[spark]"))

    assert named.is_absolute()
    assert (named / "pyproject.toml").exists()
