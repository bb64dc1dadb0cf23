"""What a test needs of the machine: without it the test is skipped and says why, or fails in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRED = "STRATALOG_REQUIRE_KAFKA"


def give_up(what: str, reason: object) -> NoReturn:
    """Skip the test; with STRATALOG_REQUIRE_KAFKA=1, as in CI, fail it."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{what} is required and cannot be had: {reason}", pytrace=False)
    pytest.skip(f"{what} cannot be had: {reason}")
