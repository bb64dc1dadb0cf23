"""The notebook with Spark runs, on a directory that a real broker left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks import run_notebook


@pytest.mark.filterwarnings("default")  # of Jupyter's own
def test_the_notebook_with_spark_runs(tmp_path: Path) -> None:
    assert run_notebook("with-spark.ipynb", tmp_path) == 5
