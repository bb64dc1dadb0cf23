"""The search for a Java, with small scripts in the place of old and new ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.errors import DiskError, MissingDependencyError
from stratalog.installing import install_command
from stratalog.spark import java
from stratalog.spark.java import SHIM, cache_folder, java_variables, java_version, write_shim
from tests.spark.cluster import QUICK_JVM
from tests.waiting import PATIENCE_S

# What the releases themselves print, on stderr.
JAVA_8 = 'openjdk version "1.8.0_392"'
JAVA_11 = 'openjdk version "11.0.21" 2023-10-17'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_25 = 'openjdk version "25.0.2" 2026-01-20 LTS'
JAVA_26_EARLY = 'openjdk version "26-ea" 2026-03-17'


def make_java(home: Path, says: str, *, status: int = 0) -> Path:
    """A home whose bin/java prints a version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("says", "version"), [(JAVA_8, 8), (JAVA_11, 11), (JAVA_17, 17), (JAVA_25, 25), (JAVA_26_EARLY, 26)]
)
def test_the_version_is_read_from_what_java_prints(tmp_path: Path, says: str, version: int) -> None:
    assert java_version(make_java(tmp_path, says) / "bin" / "java") == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "nothing") == 0
    assert java_version(make_java(tmp_path / "stub", JAVA_17, status=1) / "bin" / "java") == 0


def test_a_new_java_home_needs_nothing(tmp_path: Path) -> None:
    home = make_java(tmp_path / "new", JAVA_17)

    assert java_variables({"JAVA_HOME": str(home), "PATH": ""}) == {}


def test_a_new_java_on_path_needs_nothing(tmp_path: Path) -> None:
    home = make_java(tmp_path / "new", JAVA_25)

    assert java_variables({"PATH": str(home / "bin")}) == {}


def test_an_old_java_home_gives_way_to_a_new_java_on_path(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", JAVA_8), make_java(tmp_path / "new", JAVA_17)

    assert java_variables({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == {"JAVA_HOME": str(new)}


@pytest.mark.parametrize("says", [None, JAVA_8, JAVA_11])
def test_no_or_an_old_java_gives_way_to_the_bundled_one(tmp_path: Path, says: str | None) -> None:
    path = str(make_java(tmp_path / "old", says) / "bin") if says else ""

    variables = java_variables({"PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")})

    home = tmp_path / "cache" / "stratalog" / "java"
    assert variables == {"JAVA_HOME": str(home), "STRATALOG_JAVA": str(java.bundled_java())}
    assert os.access(home / "bin" / "java", os.X_OK)


def test_without_any_java_the_error_says_what_was_found_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "bundled_java", lambda: None)
    old = make_java(tmp_path / "old", JAVA_11)

    with pytest.raises(
        MissingDependencyError, match="JAVA_HOME has Java 11.*" + re.escape(install_command("java"))
    ):
        java_variables({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(MissingDependencyError, match="JAVA_HOME and PATH have none"):
        java_variables({"PATH": ""})


def test_the_shim_drops_only_the_module_that_is_missing(tmp_path: Path) -> None:
    shim = write_shim(tmp_path) / "bin" / "java"
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "--add-opens=x", "", "Main"]
    printf = {"STRATALOG_JAVA": "/usr/bin/printf"}

    done = subprocess.run([shim, "%s|", *arguments], env=printf, capture_output=True, text=True, check=True)

    assert done.stdout == "-Da=b c|--add-opens=x||Main|"


def test_the_shim_is_written_once(tmp_path: Path) -> None:
    shim = write_shim(tmp_path) / "bin" / "java"
    before = shim.stat().st_ino

    write_shim(tmp_path)

    assert shim.stat().st_ino == before
    assert [entry.name for entry in shim.parent.iterdir()] == ["java"]


def test_a_shim_of_another_release_is_replaced(tmp_path: Path) -> None:
    shim = write_shim(tmp_path) / "bin" / "java"
    shim.write_text("#!/bin/sh\nexit 1\n")

    write_shim(tmp_path)

    assert shim.read_text() == SHIM


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("a file where the folder should be")

    with pytest.raises(DiskError, match="XDG_CACHE_HOME"):
        write_shim(tmp_path / "java")


def test_the_cache_folder_follows_the_xdg_rules(tmp_path: Path) -> None:
    assert cache_folder({"HOME": "/home/a"}) == Path("/home/a/.cache/stratalog")
    assert cache_folder({"HOME": "/home/a", "XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "stratalog"
    assert cache_folder({"HOME": "/home/a", "XDG_CACHE_HOME": "relative"}) == Path("/home/a/.cache/stratalog")


JOB = """
import math
from stratalog.engine.engine import results_in_order
from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session
with session("hidden", master="local[1]") as spark:
    print(spark.sparkContext._jvm.System.getProperty("java.version"))
    print(results_in_order(SparkEngine(spark).run(lambda _, number: math.factorial(number), [3, 5])))
"""


def test_spark_runs_where_no_java_is_found(tmp_path: Path) -> None:
    # Spark's launcher needs a shell and its tools: everything on PATH but Java.
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            link = tools / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    quick = dict.fromkeys(("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"), QUICK_JVM)
    environ = {"PATH": str(tools), "HOME": str(tmp_path), "LANG": "C.UTF-8"} | quick

    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    version, results = done.stdout.splitlines()
    assert version.startswith("25.")
    assert results == "[6, 120]"
