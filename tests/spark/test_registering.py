"""The source is found wherever the package is: each case in a process of its own, as users start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from stratalog.errors import MissingDependencyError
from stratalog.spark.java import java_variables
from stratalog.spark.registering import naming_the_python, register
from tests.spark.cluster import SPARK_HOME
from tests.spark.damaged import damaged_log
from tests.waiting import PATIENCE_S

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damaged_log(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def strange_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH whose python3 has no packages, as beside a virtual environment that is not activated."""
    folder = tmp_path_factory.mktemp("bin")
    venv.create(folder / "bare", symlinks=True)
    (folder / "python3").symlink_to(folder / "bare" / "bin" / "python3")
    return os.pathsep.join([str(folder), "/usr/bin", "/bin"])


@pytest.fixture(scope="module")
def without_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has what this package needs, but not the package."""
    folder = tmp_path_factory.mktemp("without") / "venv"
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    variables = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", vars=variables))
    # Packages of the folders below are found; what an editable installation adds to them is not.
    (packages / "others.pth").write_text("\n".join(each for each in sys.path if each.endswith("-packages")))
    found = subprocess.run([python, "-c", "import stratalog"], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        pytest.skip("the package is not installed as editable, so nothing has its needs without it")
    return python


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is shipped by --py-files."""
    path = tmp_path_factory.mktemp("package") / "stratalog.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(SOURCE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(SOURCE))
    return path


def run(
    command: Sequence[str | Path], logs: Path, home: Path, **variables: str
) -> tuple[dict[str, Any], str]:
    """(what the process found, what it and Spark wrote to stderr)."""
    # Without compiling: that would take longer than the few records, and a zip cannot keep the machine code.
    environ = {
        **os.environ,
        **java_variables(os.environ),
        "NUMBA_DISABLE_JIT": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH"):
        environ.pop(name, None)
    done = subprocess.run(
        [*command, HERE / "plain_session.py", logs, home / "found.json"],
        env={**environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((home / "found.json").read_text()), done.stderr


def test_in_an_environment_that_is_not_activated_read_finds_the_source(
    logs: Path, strange_path: str, tmp_path: Path
) -> None:
    found, _ = run([sys.executable], logs, tmp_path, PATH=strange_path)

    assert found["by_name"] == "DATA_SOURCE_NOT_FOUND"  # so the case is what it is meant to be
    assert found["read"] == 98
    assert found["by_name_after_it"] == 98
    assert found["exported"] == 98
    assert found["told"] == [0, 50]


@pytest.mark.deep  # a Spark of its own; the shared session is found by its name too
def test_with_pyspark_python_set_the_source_is_found_by_its_name(
    logs: Path, strange_path: str, tmp_path: Path
) -> None:
    found, stderr = run([sys.executable], logs, tmp_path, PATH=strange_path, PYSPARK_PYTHON=sys.executable)

    assert found["by_name"] == found["read"] == found["exported"] == 98
    assert found["limited"] == [1, 1, 1]
    # What a plain read leaves out, workers say on their stderr; and a LIMIT stops them quietly.
    assert "stratalog: records were left out: orders-0: offset 50, " in stderr
    assert "Traceback" not in stderr
    assert "FutureWarning" not in stderr  # as PySpark has for pandas 3


def test_what_is_shipped_with_the_application_is_found(
    logs: Path, without_package: Path, package: Path, tmp_path: Path
) -> None:
    submit = [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", "--py-files", package]

    found, _ = run(submit, logs, tmp_path, PYSPARK_PYTHON=str(without_package))

    assert (found["read"], found["by_name_after_it"], found["told"]) == (98, 98, [0, 50])


@pytest.mark.deep  # a Spark of its own, for another way to the same folder of files
def test_what_a_session_adds_as_a_file_is_found(
    logs: Path, without_package: Path, package: Path, tmp_path: Path
) -> None:
    python = {"PYSPARK_PYTHON": str(without_package), "ADD_PY_FILE": str(package)}

    found, _ = run([without_package], logs, tmp_path, **python)

    assert (found["read"], found["by_name_after_it"], found["told"]) == (98, 98, [0, 50])


def test_a_session_is_registered_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    register(spark)
    monkeypatch.setattr(type(spark), "dataSource", None)  # which is not asked again

    register(spark)


def test_the_python_that_lacks_the_package_is_named(spark: SparkSession) -> None:
    words = rf"Spark runs .*python.* PYSPARK_PYTHON to a Python that has both, such as {sys.executable}"

    with pytest.raises(MissingDependencyError, match=words), naming_the_python(spark):
        raise AnalysisException("...\nModuleNotFoundError: No module named 'stratalog'\n")
    with pytest.raises(AnalysisException, match="another"), naming_the_python(spark):
        raise AnalysisException("another error")
