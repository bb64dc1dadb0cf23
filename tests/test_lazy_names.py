"""A package's names are imported when they are first used, and are those of their modules."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from stratalog.lazy_names import lazy_names
from tests.waiting import PATIENCE_S

PACKAGES = ["stratalog.log.cleaning", "stratalog.log.recovery"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_there(package: str) -> None:
    found = import_module(package)

    for name in found.__all__:
        assert getattr(found, name).__module__.startswith(f"{package}.")
        assert name in vars(found)  # so that it is looked up only once


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'stratalog\.log' has no attribute 'nothing'"):
        lazy_names("stratalog.log", {})("nothing")


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_imports_none_of_its_modules(package: str) -> None:
    program = f"import sys, {package}; print([name for name in sys.modules if name.startswith('{package}.')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )

    assert done.stdout == "[]\n"
