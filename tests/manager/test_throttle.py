"""The limit of bytes a second."""

from __future__ import annotations

import pytest

from stratalog.manager.throttle import Throttle


def test_a_throttle_sleeps_off_what_was_too_fast() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttle(1000, clock=lambda: now[0], sleep=sleep)
    throttle(900)
    assert slept == []  # the window is not over
    now[0] = 0.5
    throttle(600)
    assert slept == [pytest.approx(1.0)]  # 1500 bytes take 1.5 s
    now[0] += 1
    throttle(500)
    assert len(slept) == 1
