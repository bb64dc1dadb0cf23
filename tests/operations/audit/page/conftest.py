"""A real Chromium for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine; without one a test is skipped, or fails where Kafka is required too.

    For a module: while it runs, its driver is the event loop of the thread, and other tests start their own.
    """
    path = next((found for name in NAMES if (found := shutil.which(name)) is not None), None)
    if path is None:
        _give_up("there is no chromium on PATH (Debian: apt-get install chromium)")
    # Neither a sandbox nor much shared memory is to be had in a container.
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with sync_playwright() as driver:
        try:
            running = driver.chromium.launch(executable_path=path, args=arguments, timeout=120_000)
        except Error as error:
            _give_up(f"{path} does not start: {error.message.splitlines()[0]}")
        yield running
        running.close()


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("STRATALOG_REQUIRE_KAFKA") == "1":
        pytest.fail(f"Chromium is required and cannot be had: {reason}", pytrace=False)
    pytest.skip(f"Chromium cannot be had: {reason}")
