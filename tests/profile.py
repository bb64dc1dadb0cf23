"""How much of a test's work this run does: a handful (quick), a tenth at most (ci) or all of it (deep).

STRATALOG_PROFILE names the profile; `make quick`, `make test` and `make test-deep` set it. The same
name picks the Hypothesis profile in tests/conftest.py.
"""

from __future__ import annotations

import os

QUICK, CI, DEEP = "quick", "ci", "deep"
HANDFUL = 10


def current() -> str:
    """The profile of this run; a bare `pytest` is a quick one."""
    name = os.environ.get("STRATALOG_PROFILE", QUICK)
    if name not in (QUICK, CI, DEEP):
        raise ValueError(f"STRATALOG_PROFILE is {name!r}; it must be one of {QUICK}, {CI}, {DEEP}")
    return name


def examples(deep: int, *, quick: int = HANDFUL, ci: int | None = None) -> int:
    """How many cases to run if the full count is `deep`: all, a tenth (or `ci`), or `quick` of them.

    `ci` is fewer than a tenth where each case takes long and there are others like it.
    """
    match current():
        case "deep":
            return deep
        case "ci":
            return max(min(quick, deep), deep // 10) if ci is None else ci
        case _:
            return min(quick, deep)
