"""An archive of Spark's parsed classes, with which an embedded session starts in about half the time.

When a JVM exits, it can write the classes that it has loaded to an archive (AppCDS), and map the archive at
its next start. The archive takes some 160 MB in the user's cache folder. It is for one Java and one set of
jars: its name depends on both, and a JVM ignores an archive that does not fit. `stratalog warm --spark`
writes it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from stratalog.errors import DiskError, StratalogError
from stratalog.spark.java import REAL_JAVA_VARIABLE, cache_folder, java_variables

TIMEOUT_SECONDS = 600
# Without these options, a JVM prints to stdout that an archive does not fit, or what it left out of a new
# archive.
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"

# Runs a typical job, then lets the JVM exit by itself and waits for it. The JVM writes the archive while it
# exits, and would be killed if this process ended first.
_REHEARSAL = """
import sys
from stratalog.spark.engine import SparkEngine
from stratalog.spark.session import session
with session("rehearsal", settings={"spark.driver.extraJavaOptions": sys.argv[1]}) as spark:
    list(SparkEngine(spark).run(lambda _, task: task, [1, 2], on_progress=lambda _: None))
    jvm = spark.sparkContext._gateway.proc
jvm.stdin.close()
jvm.wait()
"""


def archive_options(environ: Mapping[str, str]) -> str:
    """JVM options that use the archive for this Java and this pyspark; none if there is no archive."""
    path = archive_path(environ)
    return f"-XX:SharedArchiveFile={_quoted(path)} -Xshare:auto {_QUIET}" if path.exists() else ""


def archive_path(environ: Mapping[str, str]) -> Path:
    """Where the archive for this Java and this pyspark is, or would be."""
    java = environ.get(REAL_JAVA_VARIABLE) or _java_of(environ)
    facts = [importlib.metadata.version("pyspark"), str(Path(sys.prefix)), java]
    if java and Path(java).exists():
        facts.append(str(Path(java).stat().st_mtime_ns))
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    return cache_folder(environ) / "spark" / f"classes-{key}.jsa"


def write_archive(environ: Mapping[str, str]) -> Path:
    """Run a small Spark job in its own process and archive its classes; takes about 20 s.

    DiskError if the archive cannot be written, StratalogError if the job fails or does not end.
    """
    environ = {**environ, **java_variables(environ)}
    path = archive_path(environ)
    new = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(path.parent, error) from error
    options = f"-XX:ArchiveClassesAtExit={_quoted(new)} {_QUIET}"
    command = [sys.executable, "-c", _REHEARSAL, options]
    try:
        try:
            done = subprocess.run(
                command, env=environ, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise StratalogError(
                "the archive of Spark's classes could not be written: the Spark job that loads them did not "
                f"end within {TIMEOUT_SECONDS} s. Run the command again when the machine is less busy. Spark "
                "works without the archive too, but starts more slowly."
            ) from error
        if done.returncode != 0 or not new.exists():
            last_words = done.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
            raise StratalogError(f"the archive of Spark's classes could not be written: {last_words[0]}")
        try:
            new.replace(path)
        except OSError as error:
            raise _not_written(path, error) from error
    finally:
        new.unlink(missing_ok=True)
    return path


def _quoted(path: Path) -> str:
    """A path in spark.driver.extraJavaOptions, which Spark splits at spaces. Spark: parseOptionString"""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _not_written(path: Path, error: OSError) -> DiskError:
    reason = (
        f"{error.strerror}; the archive of Spark's classes is kept in this folder: set XDG_CACHE_HOME to a "
        "writable folder"
    )
    return DiskError(path, reason, error.errno or 0)


def _java_of(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    return str(Path(found).resolve()) if found else ""
