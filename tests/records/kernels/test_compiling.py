"""Who is told about compilations; tests/cli/test_compiling.py has the whole way."""

from __future__ import annotations

import pytest

from stratalog.records.kernels import compiling


def test_only_the_last_listener_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_listener", None)
    first: list[bool] = []
    second: list[bool] = []

    compiling.compiling(True)
    compiling.tell_compiling(first.append)
    compiling.compiling(True)
    compiling.tell_compiling(second.append)
    compiling.compiling(False)
    compiling.tell_compiling(None)
    compiling.compiling(False)

    assert (first, second) == ([True], [False])
