"""Spark's errors in words."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from stratalog.errors import StratalogError, UsageError
from stratalog.spark.plain_errors import in_words, plain_errors


@pytest.mark.parametrize(
    ("text", "is_usage", "kind", "said"),
    [
        ("Traceback\nstratalog.errors.UsageError: no such path.\n\tat x", False, UsageError, "no such path."),
        ("x\nstratalog.errors.SchemaError: it contains itself.\n", False, UsageError, "it contains itself."),
        (
            "[PY] x\nstratalog.errors.CorruptRecordError: a.log at byte 7: bad.\n\nJVM stacktrace:\nx",
            False,
            StratalogError,
            "a.log at byte 7: bad.",
        ),
        (
            "[PARSE] Syntax error\n\n== SQL ==\nSELEC\n^^^\n",
            True,
            UsageError,
            "[PARSE] Syntax error\n\n== SQL ==\nSELEC\n^^^",
        ),
        ("java.lang.X: y\n\tat a.b", False, StratalogError, "java.lang.X: y"),
    ],
)
def test_errors_are_told_without_traces(text: str, is_usage: bool, kind: type, said: str) -> None:
    error = in_words(text, is_usage=is_usage)

    assert type(error) is kind
    assert str(error) == said


@pytest.mark.parametrize("error", [Py4JNetworkError("gone"), ConnectionRefusedError("gone")])
def test_a_lost_driver_is_said(error: Exception) -> None:
    with pytest.raises(StratalogError, match="the connection to Spark is lost: gone"), plain_errors():
        raise error
