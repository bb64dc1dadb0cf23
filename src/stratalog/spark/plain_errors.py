"""Shows our own message in an error of Spark's, without the stack traces around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from stratalog import errors
from stratalog.errors import StratalogError, UsageError

# How our errors look in the text of a Spark error; the message may have several lines.
_OURS = re.compile(
    r"stratalog\.errors\.(\w+): (.*?)(?=\n\s*(?:at |Traceback|JVM stacktrace|SQLSTATE|$)|\Z)", re.DOTALL
)


# pyspark logs an error to stderr with these, as JSON with a trace, before it raises it.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns Spark's exceptions in the block into our errors; an invalid query becomes a UsageError."""
    from py4j.protocol import Py4JError, Py4JJavaError
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
    except (Py4JError, ConnectionError) as error:  # the JVM of the driver is gone
        raise StratalogError(f"the connection to Spark is lost: {error}") from error
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def in_words(text: str, *, is_usage: bool) -> StratalogError:
    """Our error for the text of a Spark error."""
    ours = list(_OURS.finditer(text))
    if ours:
        kind, message = ours[-1][1], ours[-1][2].strip()
        is_ours_usage = issubclass(getattr(errors, kind, StratalogError), UsageError)
        return UsageError(message) if is_ours_usage else StratalogError(message)
    # A parse error shows its place in the query, which is kept; the plan in an analysis error is left out.
    said = re.split(r"\nJVM stacktrace|;\n'|\n\s+at ", text)[0].strip()
    return UsageError(said) if is_usage else StratalogError(said)
