"""Properties files, as Java reads them."""

from __future__ import annotations

import pytest

from stratalog.config import parse_properties


# What java.util.Properties read in each.
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a: b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a\t=\tb  ", {"a": "b  "}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("#c\n!d\na=1", {"a": "1"}),
        ("a=1\\\n   2", {"a": "12"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b c", {"a b": "c"}),
        ("k=\\u0041\\t\\x", {"k": "A\tx"}),
        ("a=1\na=2", {"a": "2"}),
        ("a==b", {"a": "=b"}),
        ("a=b\\", {"a": "b"}),
        ("a=\\\n#x", {"a": "#x"}),
        ("\n\n a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a : = b", {"a": "= b"}),
        ("a\\:b:c", {"a:b": "c"}),
        ("x=\\\\\\\n y", {"x": "\\y"}),
    ],
)
def test_properties_are_read_as_by_java(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found
