"""The archive of Spark's classes: written once, used by the next session, and never in the way."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stratalog.errors import DiskError, StratalogError
from stratalog.spark import archive
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
    environ = with_java(tmp_path, "exit 1")

    with pytest.raises(StratalogError, match="could not be written"):
        write_archive(environ)

    assert list((tmp_path / "stratalog" / "spark").iterdir()) == []


def test_a_rehearsal_that_does_not_end_was_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = with_java(tmp_path, "exec sleep 900")
    monkeypatch.setattr(archive, "TIMEOUT_SECONDS", 0.1)

    with pytest.raises(StratalogError, match=r"did not end within 0\.1 s\. Run the command again"):
        write_archive(environ)

    assert list((tmp_path / "stratalog" / "spark").iterdir()) == []


def test_an_archive_that_cannot_be_renamed_was_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = with_java(tmp_path, "exit 1")
    path = archive_path(environ)
    (path / "folder").mkdir(parents=True)  # a name that no file can take

    def rehearse(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        path.with_suffix(f".{os.getpid()}.tmp").write_bytes(b"classes")
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(archive, "java_variables", lambda _: {})
    monkeypatch.setattr(archive.subprocess, "run", rehearse)
    with pytest.raises(DiskError, match="set XDG_CACHE_HOME to a writable folder") as caught:
        write_archive(environ)

    assert (caught.value.errno, caught.value.path) == (errno.EISDIR, str(path))
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_cache_folder_that_cannot_be_made_has_no_remedy(tmp_path: Path) -> None:
    environ = with_java(tmp_path, "exit 1")
    (tmp_path / "stratalog").write_bytes(b"not a folder")

    with pytest.raises(DiskError, match="set XDG_CACHE_HOME to a writable folder") as caught:
        write_archive(environ)

    assert caught.value.errno == errno.ENOTDIR


def test_a_cache_folder_with_a_space_broke_the_archive(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / 'my "cache"')}

    write_archive(environ)

    assert run_session(environ) == ["True 3"]


def with_java(tmp_path: Path, words: str) -> dict[str, str]:
    """Variables for a Java 17 that runs this command of the shell instead of a class."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\n[ "$1" = -version ] || {words}\necho \'openjdk version "17.0.1"\' >&2\n')
    java.chmod(0o755)
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(java.parent.parent)}
