"""The Chromium of this machine, for the tests of the page; without one they are skipped, or fail in CI."""

from __future__ import annotations

import shutil

from tests.required import give_up

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str:
    """The path of a browser; without one the test is skipped, or fails where Kafka is required too."""
    path = next((found for name in NAMES if (found := shutil.which(name)) is not None), None)
    if path is None:
        give_up("Chromium", "there is no chromium on PATH (Debian: apt-get install chromium)")
    return path
