"""The pictures of docs/audit.md: `python -m tests.operations.audit.page.screenshots`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.operations.audit.page.example import build_example, example_report

IMAGES = Path(__file__).parents[4] / "docs" / "images"
LARGEST = 150_000
_TO_TOP = "each => scrollBy(0, each.getBoundingClientRect().top - 80)"  # below the bar of the page


def take_pictures(browser: Browser, folder: Path, target: Path) -> None:
    """Build the example in a folder, and write the pictures of its page."""
    root = build_example(folder / "kafka")
    page = example_report(root).to_html().replace(str(root), "/var/lib/kafka")
    (folder / "audit.html").write_text(page, "ascii")
    for name, scheme, height in (("light", "light", 1130), ("dark", "dark", 900), ("bytes", "light", 860)):
        context = browser.new_context(
            color_scheme="light" if scheme == "light" else "dark", viewport={"width": 1180, "height": height}
        )
        view = context.new_page()
        view.goto((folder / "audit.html").as_uri())
        view.wait_for_selector("html[data-ready]", state="attached")
        if name == "dark":
            strip = view.locator("article[aria-label=orders-1]")
            strip.locator("svg.strip").focus()
            view.keyboard.press("PageDown")
            strip.evaluate(_TO_TOP)
        if name == "bytes":
            region = view.locator("details.bytes", has_text="bad-length")
            region.locator("summary").click()
            region.locator(".bytemap").click()
            region.evaluate(_TO_TOP)
        view.screenshot(path=target / f"audit-{name}.png", animations="disabled")
        context.close()


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take_pictures(browser, Path(folder), IMAGES)
        browser.close()


if __name__ == "__main__":
    main()
