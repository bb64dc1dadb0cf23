"""Makes `format("stratalog")` known to a session, wherever the package is.

Spark looks for sources with the Python that its workers use: `PYSPARK_PYTHON`, or the first `python3` on
PATH, which in a virtual environment that is not activated is another Python. That search also does not find
files that `--py-files` and `addPyFile` distribute. A source that is registered by its class has neither
problem. Unlike a source that Spark has found by its name, it can also use Spark's accumulators.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

from stratalog.errors import MissingDependencyError
from stratalog.spark.engine import context_of
from stratalog.spark.session import PYTHON_VARIABLE, own_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_registered: WeakSet[SparkSession] = WeakSet()
_MISSING = re.compile(r"No module named '(stratalog|pyarrow|numpy|numba|cramjam|zstandard)\b")


def register(spark: SparkSession) -> None:
    """Make `format("stratalog")` known to this session, even if Spark cannot find it by itself.

    `stratalog.spark.read` does it too. Through Spark Connect nothing is done: the server finds the source.
    """
    context = context_of(spark)
    if context is None or spark in _registered:
        return
    from stratalog.spark.source import StratalogSource

    with own_python(context):
        spark.dataSource.register(StratalogSource)
    _registered.add(spark)


@contextmanager
def naming_the_python(spark: SparkSession) -> Iterator[None]:
    """Turns Spark's error about a Python without this package into one that says what to set."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        context = context_of(spark)
        if context is None or not _MISSING.search(str(error)):
            raise
        raise MissingDependencyError(
            f"Spark runs {context.pythonExec} for its workers, and that Python lacks stratalog or something "
            f"that stratalog needs. Before the session starts, set {PYTHON_VARIABLE} to a Python that has "
            f"both, such as {sys.executable}; on a cluster, that path must exist on every worker."
        ) from error
