"""A real Chromium for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

from tests.operations.audit.page.chromium import find_chromium
from tests.required import give_up


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine; without one a test is skipped, or fails where Kafka is required too.

    For a module: while it runs, its driver is the event loop of the thread, and other tests start their own.
    """
    path = find_chromium()
    # Neither a sandbox nor much shared memory is to be had in a container.
    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with sync_playwright() as driver:
        try:
            running = driver.chromium.launch(executable_path=path, args=arguments, timeout=120_000)
        except Error as error:
            give_up("Chromium", f"{path} does not start: {error.message.splitlines()[0]}")
        yield running
        running.close()
