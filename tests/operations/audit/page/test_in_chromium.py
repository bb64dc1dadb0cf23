"""The page in a real Chromium: opened, filtered, sorted, clicked, by keyboard, in both schemes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from stratalog.operations.audit.audit import audit
from tests.manager.running import fixture_copy
from tests.operations.audit.page.chromium import find_chromium
from tests.operations.audit.page.example import build_example, build_many, example_report
from tests.operations.audit.page.screenshots import IMAGES, LARGEST, take_pictures
from tests.operations.audit.planting import ROLLED, flip

USABLE_S = 2.0
PATIENCE_MS = 120_000  # so long that only a fault reaches it
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a directory with damage of many kinds."""
    folder = tmp_path_factory.mktemp("page")
    report = example_report(build_example(folder / "data"))
    (folder / "audit.html").write_text(report.to_html(), "ascii")
    return folder / "audit.html"


@contextmanager
def opened(browser: Browser, file: Path, scheme: str = "light") -> Iterator[Page]:
    """The page; at the end, that it has complained of nothing and asked for nothing but itself."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    yield page
    context.close()
    assert complaints == []
    assert requests == [file.as_uri()]


def rows(page: Page, column: int) -> list[str]:
    return page.locator(f"#findings-table tr.row td:nth-child({column})").all_inner_texts()


def test_it_opens_with_its_verdict_and_asks_for_nothing(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        expect(page.locator("h1")).to_contain_text("6 errors, 7 warnings")
        expect(page.locator("#treemap rect[data-number]")).to_have_count(12)
        assert page.locator("#commands code").first.inner_text().startswith("stratalog recover --dry-run")
        assert len(rows(page, 1)) == 13


def test_findings_are_filtered_by_severity_kind_and_text(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        warnings = page.locator("#filters").get_by_role("button", name="warnings")
        warnings.click()
        assert set(rows(page, 1)) == {"error"}
        warnings.click()
        page.get_by_label("Filter by kind").select_option("wrong-crc")
        assert rows(page, 3) == ["orders-1"]
        page.get_by_label("Filter by kind").select_option("")
        page.get_by_label("Filter by text").fill("PAYMENTS transaction")
        assert rows(page, 2) == ["hanging-transaction"]
        page.get_by_label("Filter by text").fill("nothing has this")
        expect(page.locator("#findings-table tbody")).to_contain_text("No finding matches")


def test_findings_are_sorted_by_a_column_in_both_directions(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        heading = page.locator("th[data-column=position]")
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "ascending")
        up = [int(text.replace(",", "") or -1) for text in rows(page, 5)]
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "descending")
        down = [int(text.replace(",", "") or -1) for text in rows(page, 5)]

        assert up == sorted(up)
        assert down == sorted(up, reverse=True)
        assert up[-1] > 0


def test_a_segment_is_clicked_in_the_treemap_and_the_strip(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        page.locator("#treemap rect[aria-label^='orders-1,']").click()
        strip = page.locator("article[aria-label=orders-1]")
        expect(strip).to_be_in_viewport()
        picture = strip.locator("svg.strip")
        box = picture.bounding_box()
        assert box is not None
        # The fifth of twelve segments of the same number of offsets.
        picture.click(position={"x": 58 + (box["width"] - 66) * 4.5 / 12, "y": 30})
        details = strip.locator(".segment")
        expect(details).to_contain_text("wrong-crc")
        expect(details).to_contain_text("1,968 to 2,459")
        details.get_by_role("button", name="Show the bytes").click()
        expect(page.locator("details.bytes[open] .bytemap")).to_be_in_viewport()


def test_a_damaged_region_shows_its_bytes_and_the_headers_around(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        page.locator("details.bytes", has_text="bad-length").locator("summary").click()
        region = page.locator("details.bytes[open]")
        expect(region.locator(".header.after").first).to_be_visible()
        roles = region.locator(".header .quiet").all_inner_texts()
        assert [text.split(",")[0] for text in roles][:3] == [
            "before the damage",
            "before the damage",
            "in the damage",
        ]
        assert roles[-1].startswith("after the damage")
        assert region.locator(".header.before").first.get_by_text("checksum right").count() == 1
        region.locator(".bytemap").click()
        expect(region.locator(".readout")).to_contain_text("zeros, in the damage")
        region.locator(".header.inside").first.locator("tr", has_text="crc").first.hover()
        assert region.locator(".hex .lit").count() == 8  # four bytes, in hexadecimal and as text


def test_everything_is_reached_by_keyboard(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        page.locator("#treemap rect[tabindex='0']").focus()
        page.keyboard.press("ArrowRight")
        chosen = page.evaluate("document.activeElement.getAttribute('aria-label')").split(",")[0]
        page.keyboard.press("Enter")
        strip = page.locator(f"article[aria-label='{chosen}']")
        expect(strip.locator("svg.strip")).to_be_focused()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(strip.locator("svg.strip")).to_have_attribute("aria-valuenow", "1")
        expect(strip.locator(".segment")).to_be_visible()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('.segment') !== null")

        first = page.locator("#findings-table .twist").first
        first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("tr.detail")).to_contain_text("What to do")
        expect(first).to_have_attribute("aria-expanded", "true")

        page.locator("details.bytes summary").first.focus()
        page.keyboard.press("Enter")
        page.locator(".bytemap").first.focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator(".readout").first).to_contain_text("in the damage, 0 bytes after its start")


def test_what_can_be_used_has_a_name(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        page.locator("details.bytes summary").first.click()
        expect(page.locator(".bytemap").first).to_be_visible()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, input, select, a, [role=button], [role=slider], "
                 + "[role=application], [tabindex='0']:not(tr):not(code)")]
              .filter((each) => !(each.getAttribute("aria-label") || each.textContent || "").trim()
                 && !each.labels?.length).map((each) => each.outerHTML.slice(0, 80))"""
        )

        assert nameless == []


def test_a_command_is_copied(browser: Browser, example: Path) -> None:
    with opened(browser, example) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        first = page.locator("#commands .command").first
        first.get_by_role("button").click()
        expect(first.get_by_role("button")).to_have_text("Copied")

        assert page.evaluate("navigator.clipboard.readText()") == first.locator("code").inner_text()


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_it_has_the_scheme_of_the_browser_and_a_button_for_the_other(
    browser: Browser, example: Path, scheme: str, other: str
) -> None:
    with opened(browser, example, scheme) as page:
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
        page.get_by_role("button", name=f"Show the page in {other} colours").click()
        expect(page.locator("html")).to_have_attribute("data-theme", other)

        brightness = sum(int(part) for part in before.strip("rgb()").split(","))
        assert (brightness > 600) == (scheme == "light")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_names_on_the_disk_are_shown_and_not_run(browser: Browser, tmp_path: Path) -> None:
    name = '<img src=x onerror="window.owned=1">'
    root = fixture_copy("clean", tmp_path / "<script>window.owned=2<" / "script>" / "data")
    (root / "rolled-0" / name).write_bytes(b"")
    flip(root / ROLLED, 100)
    file = tmp_path / "audit.html"
    file.write_text(audit([root], mapped=True).to_html(), "ascii")

    with opened(browser, file) as page:
        page.locator("#filters").get_by_role("button", name="notes").click()
        page.get_by_label("Filter by text").fill("onerror")
        assert rows(page, 4) == [name]
        page.locator("#findings-table .twist").first.click()
        expect(page.locator("tr.detail")).to_contain_text(str(root))
        page.locator("details.bytes summary").first.click()
        expect(page.locator(".bytemap").first).to_be_visible()
        path = str(root / ROLLED)
        dump = shlex.join(["stratalog", "dump", "--position", "0", path])
        assert page.locator(".bytes-body .command code").inner_text() == dump
        assert page.locator("#where").inner_text() == str(root)
        assert page.evaluate("window.owned") is None
        assert page.locator("img").count() == 0


def test_the_policy_of_the_page_runs_no_other_program(browser: Browser, example: Path) -> None:
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(example.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")

    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.owned = 1'}))"
    )
    page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))")

    assert page.evaluate("window.owned") is None
    page.wait_for_function("document.images[0].complete")
    assert len([each for each in complaints if "Content Security Policy" in each]) == 2
    page.close()


def test_the_pictures_of_the_documents_can_be_taken_again(browser: Browser, tmp_path: Path) -> None:
    take_pictures(browser, tmp_path, tmp_path)

    for name in ("audit-light.png", "audit-dark.png", "audit-bytes.png"):
        taken, kept = (tmp_path / name).read_bytes(), (IMAGES / name).read_bytes()
        assert taken[:24] == kept[:24]  # a PNG of the same width and height
        assert len(kept) < LARGEST


def test_five_thousand_segments_are_usable_soon(browser: Browser, tmp_path: Path) -> None:
    """Measured as time of the page's own thread, which other work on the machine does not lengthen."""
    report = example_report(build_many(tmp_path / "data", segments=5_000, partitions=5))
    file = tmp_path / "audit.html"
    file.write_text(report.to_html(), "ascii")
    with opened(browser, tmp_path / "audit.html") as page:
        expect(page.locator("#partitions-count")).to_have_text("5 of 5")
    context = browser.new_context()
    page = context.new_page()
    metrics = context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    page.get_by_label("Filter by text").fill("events-3")
    page.locator("svg.strip path.a").first.wait_for(state="attached")
    page.locator("svg.strip").first.focus()
    page.keyboard.press("PageDown")
    expect(page.locator(".segment").first).to_contain_text("wrong-crc")

    found = {each["name"]: each["value"] for each in metrics.send("Performance.getMetrics")["metrics"]}
    assert 0 < found["TaskDuration"] < USABLE_S
    assert file.stat().st_size < 1_000_000
    context.close()


@pytest.mark.parametrize(("required", "outcome"), [("0", pytest.skip), ("1", pytest.fail)])
def test_without_chromium_it_is_skipped_in_words_or_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, outcome: Any
) -> None:
    monkeypatch.setenv("STRATALOG_REQUIRE_KAFKA", required)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(outcome.Exception, match="there is no chromium on PATH"):
        find_chromium()
