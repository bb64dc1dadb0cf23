"""The Chromium of this machine, for the tests of the page; without one they are skipped, or fail in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str:
    """The path of a browser; without one the test is skipped, or fails where Kafka is required too."""
    path = next((found for name in NAMES if (found := shutil.which(name)) is not None), None)
    if path is None:
        give_up("there is no chromium on PATH (Debian: apt-get install chromium)")
    return path


def give_up(reason: str) -> NoReturn:
    if os.environ.get("STRATALOG_REQUIRE_KAFKA") == "1":
        pytest.fail(f"Chromium is required and cannot be had: {reason}", pytrace=False)
    pytest.skip(f"Chromium cannot be had: {reason}")
