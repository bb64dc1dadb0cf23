"""Runs `stratalog demo` for tests."""

from __future__ import annotations

import json
from typing import Any

import pytest


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)
