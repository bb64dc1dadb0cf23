"""The archive of Spark's classes: written once, used by the next session, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.errors import StratalogError
from stratalog.spark.archive import archive_options, archive_path, write_archive
from tests.waiting import PATIENCE_S

# The archive is used if it is mapped in the JVM's memory.
SESSION = """
from pathlib import Path
from stratalog.spark.session import session
with session("archived", master="local[1]") as spark:
    jvm = spark.sparkContext._gateway.proc.pid
    print("classes-" in Path(f"/proc/{jvm}/maps").read_text(), spark.range(3).count())
"""


def run_session(environ: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_an_archive_there_are_no_options(tmp_path: Path) -> None:
    assert archive_options({**os.environ, "XDG_CACHE_HOME": str(tmp_path)}) == ""


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}

    paths = {archive_path({**environ, "JAVA_HOME": home}) for home in ("/opt/java-17", "/opt/java-21")}

    assert len(paths) == 2


def test_an_archive_is_written_whole_and_used(archived: dict[str, str]) -> None:
    path = archive_path(archived)

    assert path.stat().st_size > 10_000_000
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert run_session(archived) == ["True 3"]


def test_a_broken_archive_does_not_keep_spark_from_starting(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    path = archive_path(environ)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half of it")

    assert run_session(environ) == ["False 3"]


def test_a_rehearsal_that_fails_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\n[ "$1" = -version ] || exit 1\necho \'openjdk version "17.0.1"\' >&2\n')
    java.chmod(0o755)
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(java.parent.parent)}

    with pytest.raises(StratalogError, match="could not be written"):
        write_archive(environ)

    assert list((tmp_path / "stratalog" / "spark").iterdir()) == []
