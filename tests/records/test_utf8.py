"""Text as Java reads it."""

from __future__ import annotations

import pytest

from stratalog.records.utf8 import decode_text

# What `new String(bytes, UTF_8)` of JDK 17 makes of these.
BY_JAVA = {
    b"": "",
    b"plain": "plain",
    "grün €".encode(): "grün €",
    "\U0001f600".encode(): "\U0001f600",
    b"a\xffb": "a\ufffdb",
    b"\xc3": "\ufffd",
    b"\xed\xa0\x80": "\ufffd",
    b"\xed\xa0\x80\xed\xb0\x80": "\ufffd\ufffd",
    b"x\xed\xa0": "x\ufffd",
}


@pytest.mark.parametrize("raw", BY_JAVA)
def test_what_is_not_utf8_is_replaced_as_java_replaces_it(raw: bytes) -> None:
    assert decode_text(raw) == BY_JAVA[raw]
