"""Messages with a few bytes changed: each is decoded, or refused with our own error."""

from __future__ import annotations

from hypothesis import strategies as st


def mutate(raw: bytes, data: st.DataObject) -> bytes:
    """The same bytes with a few changed, cut out or put in."""
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(changed)))
        length = data.draw(st.integers(0, 4))
        changed[start : start + length] = data.draw(
            st.binary(max_size=8)
            | st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"])
        )
    return bytes(changed)
