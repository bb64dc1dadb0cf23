"""The examples of docs/arrow.md run, on a directory that a real broker left."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import stratalog
from stratalog.records.columns import ALL_COLUMNS

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "arrow.md").read_text("utf-8")
LOGS = str(ROOT / "tests" / "fixtures" / "kafka-4.3.1" / "clean" / "logs")


def test_the_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {"LOGS": LOGS, "HOME": str(tmp_path)}

    for block in blocks:
        exec(compile(block, "docs/arrow.md", "exec"), names)

    assert blocks


def test_each_argument_and_column_has_its_place() -> None:
    arguments = [name for name in inspect.signature(stratalog.scan).parameters if name != "paths"]

    assert [name for name in (*arguments, *ALL_COLUMNS) if f"`{name}`" not in TEXT] == []
