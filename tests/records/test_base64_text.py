"""Base64 for JSON: what is written is read back, and nothing else is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.base64_text import from_base64, to_base64


@given(st.none() | st.binary())
def test_what_is_written_is_read_back(data: bytes | None) -> None:
    assert from_base64(to_base64(data)) == data


@pytest.mark.parametrize("text", [7, "!", "AAA", "AA==AA==", "é", b"AAAA", {"a": 1}])
def test_what_is_not_base64_is_named(text: object) -> None:
    with pytest.raises(ValueError, match="is not base64"):
        from_base64(text)
