"""A Kafka release as a folder of jars, resolved once with Maven into the user's cache.

The cache is `${XDG_CACHE_HOME:-~/.cache}/stratalog/kafka/<release>`, outside the tree: 92 jars, 54 MB. A
folder under its final name is complete, since Maven fills a temporary one that is renamed at the end; once it
is there, neither Maven nor a network is needed again.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

NEWEST = "4.3.1"
BEFORE_4_0 = "3.9.2"  # the last release before 4.0: its directories are those that an upgrade finds
WITH_LEGACY_FORMATS = "2.8.2"  # writes magic 0 and 1 by `message.format.version`, and runs on Java 17

_POM = Path(__file__).with_name("pom.xml")
_OLDEST_JAVA = 17


class KafkaUnavailableError(RuntimeError):
    """Kafka is not available on this machine; the message says why."""


@dataclass(frozen=True)
class KafkaJars:
    """The jars of one release, and the Java that runs them."""

    release: str
    folder: Path
    java: Path

    @property
    def numbers(self) -> tuple[int, ...]:
        return release_numbers(self.release)

    @cached_property
    def class_path(self) -> str:
        # Written out and sorted: a shared class archive is valid for only one class path.
        return os.pathsep.join(sorted(str(jar) for jar in self.folder.glob("*.jar")))


def resolve(release: str = NEWEST) -> KafkaJars:
    """The jars of a release, from the cache or else by Maven; KafkaUnavailableError if neither works."""
    java = find_java()
    folder = cache_folder() / release
    if not folder.exists():
        with locked(folder.parent / f"{release}.lock"):
            if not folder.exists():  # another process may have filled it while we waited
                _download(release, folder)
    return KafkaJars(release=release, folder=folder, java=java)


def cache_folder() -> Path:
    """The folder of releases, compiled helpers and class archives; created if necessary."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "stratalog" / "kafka"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def find_java(tool: str = "java") -> Path:
    """`java` or another program of the JDK, from JAVA_HOME or the path, of version 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(tool, path=str(Path(home) / "bin")) if home else shutil.which(tool)
    if found is None:
        raise KafkaUnavailableError(f"no `{tool}` in {'JAVA_HOME' if home else 'the path'}")
    done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    stated = re.search(r'(?:version "|javac )(\d+)', done.stderr + done.stdout)
    if stated is None or int(stated[1]) < _OLDEST_JAVA:
        raise KafkaUnavailableError(f"{found} is older than Java {_OLDEST_JAVA}: {done.stderr.strip()}")
    return Path(found)


def release_numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in release.split("."))


def _download(release: str, folder: Path) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise KafkaUnavailableError(f"no jars of Kafka {release} in {folder}, and no `mvn` to get them with")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{release}-") as partial:
        jars = Path(partial) / "jars"
        command = [mvn, "-B", "-q", "-f", str(_POM), f"-Dkafka.version={release}"]
        if release_numbers(release) < (4, 0):
            command.append("-Down.log.backend")
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaUnavailableError(
                f"mvn failed for Kafka {release}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
            )
        jars.rename(folder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps out the other processes that lock this file; it is made if need be."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
