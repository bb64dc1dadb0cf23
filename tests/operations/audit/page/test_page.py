"""The page as a file: one that needs nothing else, and in which a name on the disk is only text."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from stratalog.errors import UsageError
from stratalog.operations.audit.audit import audit
from stratalog.operations.audit.page.page import PROGRAMS, embedded
from tests.manager.running import fixture_copy
from tests.operations.audit.planting import ROLLED, flip

FOLDER = files("stratalog.operations.audit.page")


def page_of(root: Path) -> str:
    return audit([root], mapped=True).to_html()


def test_it_loads_nothing_from_anywhere(tmp_path: Path) -> None:
    page = page_of(fixture_copy("clean", tmp_path / "data"))

    assert re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", page) == []
    assert set(re.findall(r"https?://[^\"'\s)]*", page)) == {"http://www.w3.org/2000/svg"}
    assert "url(#hatch)" in page
    assert re.findall(r"@import|url\((?!#)", page) == []
    assert "default-src 'none'" in page


def test_names_on_the_disk_are_only_in_the_document_and_the_title(tmp_path: Path) -> None:
    hostile = '"><script>alert(1)<'
    root = fixture_copy("clean", tmp_path / hostile / "script>" / "data")
    (root / "rolled-0" / "<!--<script>x").write_bytes(b"")
    flip(root / ROLLED, 100)

    page = page_of(root)

    assert page.count("<script") == page.count("</script>") == 2
    assert f"<title>{html.escape(f'Audit of {root}')}</title>" in page
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data)["directories"] == [str(root)]
    assert not {"<", ">", "&"} & set(data)


def test_a_name_that_is_not_text_does_not_spoil_it(tmp_path: Path) -> None:
    root = fixture_copy("clean", tmp_path / "data")
    (Path(bytes(root / "rolled-0").decode()) / b"\xff\xfe".decode("utf-8", "surrogateescape")).write_bytes(
        b""
    )

    page = page_of(root)

    assert page.isascii()
    assert "\\udcff\\udcfe" in page


def test_json_does_not_end_its_element() -> None:
    document = {"a": "</script><!--\u2028&amp;", "b": "\ud800"}

    text = embedded(document)

    assert not {"<", ">", "&", "\u2028"} & set(text)
    assert json.loads(text) == document


def test_each_program_is_in_it_and_is_ascii() -> None:
    names = {file.name for file in FOLDER.joinpath("js").iterdir() if file.name.endswith(".js")}

    assert names == set(PROGRAMS)
    for file in (*FOLDER.joinpath("js").iterdir(), FOLDER.joinpath("page.css"), FOLDER.joinpath("page.html")):
        assert file.read_text("utf-8").isascii(), file.name


def test_no_program_makes_elements_from_text() -> None:
    for name in PROGRAMS:
        program = FOLDER.joinpath("js", name).read_text("utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", program
        )


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "paper"),
    [
        ("ink", "card"),
        ("ink", "raised"),
        ("quiet", "bg"),
        ("quiet", "card"),
        ("quiet", "raised"),
        ("accent", "card"),
        ("accent", "accent-soft"),
        ("error", "raised"),
        ("error", "error-soft"),
        ("warning", "warning-soft"),
        ("ok", "ok-soft"),
        ("note", "note-soft"),
        ("map-ink", "map-ok"),
        ("map-ink", "map-ok-2"),
        ("map-ink", "map-warning"),
        ("map-ink", "map-error"),
    ],
)
def test_text_has_enough_contrast(ink: str, paper: str, number: int) -> None:
    style = FOLDER.joinpath("page.css").read_text("utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", style.split("}")[number]))

    lighter, darker = sorted((luminance(colours[ink]), luminance(colours[paper])), reverse=True)

    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def test_a_report_without_a_map_has_no_page(tmp_path: Path) -> None:
    report = audit([fixture_copy("clean", tmp_path / "data")])

    with pytest.raises(UsageError, match="mapped=True"):
        report.to_html()
