"""The pip command that adds an optional dependency to this installation, for messages.

The package is not on PyPI, so `pip install 'stratalog[spark]'` would find nothing. The right command depends
on where this installation came from: a clone, an archive or a repository, as PEP 610's direct_url.json says.
"""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """The command, such as `pip install '.[spark]'` in a clone."""
    try:
        text = distribution("stratalog").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    return command_for(extra, None if text is None else json.loads(text), clone=_own_clone(), here=Path.cwd())


def command_for(
    extra: str,
    origin: dict[str, Any] | None,  # Any: PEP 610
    *,
    clone: Path | None,
    here: Path,
) -> str:
    """The command for an installation from `origin`, or from the clone in which this file is.

    A clone that is not the present folder is named by its path.
    """
    editable = ""
    if origin is not None and "dir_info" in origin:
        clone = Path(unquote(urlsplit(origin["url"]).path))
        editable = "-e " if origin["dir_info"].get("editable") else ""
    elif origin is not None:
        scheme = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
        return f"pip install 'stratalog[{extra}] @ {scheme}{origin['url']}'"
    if clone is None:
        return f"pip install 'stratalog[{extra}]'"
    return f"pip install {editable}'{'.' if clone == here else clone}[{extra}]'"


def _own_clone() -> Path | None:
    """The clone from which this file runs without an installation."""
    folder = Path(__file__).resolve().parents[2]
    return folder if (folder / "pyproject.toml").exists() else None
