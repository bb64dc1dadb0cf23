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


def test_words_about_the_cache_reach_the_last_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_on_uncached", None)
    said: list[str] = []

    compiling.uncached("nobody listens")
    compiling.tell_uncached(said.append)
    compiling.uncached("no room")
    compiling.tell_uncached(None)
    compiling.uncached("nobody listens")

    assert said == ["no room"]
