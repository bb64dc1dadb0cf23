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


def test_a_report_without_a_map_has_no_page(tmp_path: Path) -> None:
    report = audit([fixture_copy("clean", tmp_path / "data")])

    with pytest.raises(UsageError, match="mapped=True"):
        report.to_html()
