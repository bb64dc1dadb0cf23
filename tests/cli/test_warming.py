"""The small log that compiles every kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S


@pytest.mark.deep
def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def compiled() -> int:
        done = subprocess.run(
            [sys.executable, "-m", "stratalog.cli.main", "warm", "--json"],
            env=environ,
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        )
        kernels: list[dict[str, Any]] = json.loads(done.stdout)["kernels"]
        return sum(kernel["compiled_count"] for kernel in kernels)

    assert compiled() > 0
    assert compiled() == 0
