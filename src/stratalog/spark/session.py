"""A SparkSession with the settings that Kafka logs need; by default Spark is embedded in this process.

    with session("audit") as spark:
        spark.range(3).show()

Starting a session takes seconds, so a command starts one and passes it on.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stratalog.errors import MissingDependencyError
from stratalog.installing import install_command
from stratalog.limits import INT32_MAX
from stratalog.spark.archive import archive_options
from stratalog.spark.java import java_variables
from stratalog.spark.workers import NUMBA_CACHE_VARIABLE

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OLDEST_PYSPARK = (4, 3)
PYTHON_VARIABLE = "PYSPARK_PYTHON"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Any other zone changes the Arrow type of timestamps on the way through Python.
    "spark.sql.session.timeZone": "UTC",
    # To keep this limit, Spark measures a batch after every row. For a column of NULL arrays, which Kafka's
    # headers usually are, this takes quadratic time. Batches are bounded by their rows instead.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(INT32_MAX),
    # An empty task takes 11 to 21 ms with this and 25 to 29 ms without: with TCP both sides mostly wait.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.shuffle.partitions": "8",
    # A second attempt of a task that changes files must never run at the same time as the first.
    "spark.speculation": "false",
}


@contextmanager
def session(
    app_name: str, *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session for the length of a `with` block; `settings` override SETTINGS.

    If there is a session already, it is used, with those settings that can still be changed. It is left
    running, because it belongs to the code that started it.

    Raises MissingDependencyError, with what to install, if pyspark, pandas or Java is missing.
    """
    require_pyspark()
    embedded = master.startswith("local")
    from pyspark.sql import SparkSession

    # Spark looks at the variables when its Java and its context start, and never again.
    with _environment(_variables(embedded=embedded)):
        builder = SparkSession.builder.appName(app_name).master(master)
        ours = SETTINGS | _embedded_settings(embedded=embedded) | _executor_variables(os.environ)
        for key, value in {**ours, **(settings or {})}.items():
            builder = builder.config(key, value)
        was_there = SparkSession.getActiveSession() is not None
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        if not was_there:
            spark.stop()


def require_pyspark() -> None:
    """Raise MissingDependencyError unless pandas and a recent enough pyspark are installed."""
    how = install_command("spark")
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependencyError(f"this needs Spark, and pyspark is not installed: {how}") from None
    if version_of(version) < OLDEST_PYSPARK:
        oldest = ".".join(map(str, OLDEST_PYSPARK))
        raise MissingDependencyError(
            f"pyspark {version} is installed, but {oldest} or newer is needed: {how}"
        )
    try:
        importlib.metadata.version("pandas")
    except importlib.metadata.PackageNotFoundError:
        # pyspark requires pandas before it maps a function over Arrow batches, though it does not use it
        # there.
        raise MissingDependencyError(f"pyspark needs pandas, which is not installed: {how}") from None


@contextmanager
def own_python(context: SparkContext | None) -> Iterator[None]:
    """Inside the block, an embedded Spark runs new functions on this Python, unless the user chose another.

    On a cluster this Python may not exist, so Spark's choice stays. Spark Connect, which has no context, is
    left alone.
    """
    if context is None or PYTHON_VARIABLE in os.environ or not (context.master or "").startswith("local"):
        yield
        return
    before, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def version_of(text: str) -> tuple[int, int]:
    """Major and minor of a release name such as 4.3.0 or 4.3.0.dev1."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables for a `with` block, and restores them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _variables(*, embedded: bool) -> dict[str, str]:
    """Environment variables for the JVM and the workers. The user's own values stay, except for Java."""
    # By default workers use the first python3 on PATH, which may not have this package.
    variables = {PYTHON_VARIABLE: os.environ.get(PYTHON_VARIABLE, sys.executable)}
    if embedded:
        # Without an address, Spark looks up the host's name, and warns if it resolves to a loopback address.
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        variables |= java_variables(os.environ)
    return variables


def _executor_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Executors use the driver's cache folder for compiled kernels, if one is set.

    Otherwise a worker finds a folder by itself (`workers.prepare_worker`): only the worker knows where it can
    write.
    """
    folder = environ.get(NUMBA_CACHE_VARIABLE)
    return {f"spark.executorEnv.{NUMBA_CACHE_VARIABLE}": folder} if folder else {}


def _embedded_settings(*, embedded: bool) -> dict[str, str]:
    if not embedded:
        return {}
    # The log level is set in a file, because a level that is set later does not affect what Spark logs while
    # it starts.
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    options = f"-Dlog4j2.configurationFile={log4j} {archive_options(os.environ)}"
    return {"spark.driver.extraJavaOptions": options.strip()}
