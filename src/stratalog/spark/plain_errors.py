"""Spark's errors in words: what we said in a worker or a planner, without the traces around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.errors import StratalogError, UsageError

# How an error of ours looks in the text that Spark makes of it; the message may have several lines.
_OURS = re.compile(
    r"stratalog\.errors\.(\w+): (.*?)(?=\n\s*(?:at |Traceback|JVM stacktrace|SQLSTATE|$)|\Z)", re.DOTALL
)


# What pyspark tells of an error on stderr, as JSON with a trace, before it raises it.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns what Spark raises inside into an error of ours; a query that makes no sense is wrong usage."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    except PySparkException as error:
        raise in_words(str(error), is_usage=isinstance(error, AnalysisException)) from error
    except Py4JJavaError as error:
        raise in_words(str(error.java_exception), is_usage=False) from error
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def in_words(text: str, *, is_usage: bool) -> StratalogError:
    """The error in a text of Spark's."""
    ours = list(_OURS.finditer(text))
    if ours:
        kind, message = ours[-1][1], ours[-1][2].strip()
        return UsageError(message) if kind == "UsageError" else StratalogError(message)
    # A parse error shows where in the query it is; the plan of an analysis error helps nobody.
    said = re.split(r"\nJVM stacktrace|;\n'|\n\s+at ", text)[0].strip()
    return UsageError(said) if is_usage else StratalogError(said)
