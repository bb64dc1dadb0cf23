"""Runs a notebook of docs/notebooks in a kernel of its own."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.waiting import PATIENCE_S

NOTEBOOKS = Path(__file__).parent.parent / "docs" / "notebooks"
LOGS = Path(__file__).parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs"


def run_notebook(name: str, folder: Path) -> int:
    """Run all cells in a folder; returns how many are code. The error of a cell that fails shows the cell."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count], "it is kept without results"
    client = NotebookClient(
        notebook,
        timeout=PATIENCE_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    environ = {**os.environ, "LOGS": str(LOGS), "IPYTHONDIR": str(folder), "HOME": str(folder)}
    client.execute(env=environ)
    return len(code)
