"""A name on no host is an error, or a problem if not every host could be asked."""

from __future__ import annotations

import pytest

from stratalog.engine.hosts import Placed
from stratalog.errors import UsageError
from stratalog.operations.named_on_hosts import NamedReport, check_named

FOUND = {"b1": NamedReport(("a",), 1), "b2": NamedReport(("a", "b"), 2)}


def test_each_name_must_be_on_one_host_only() -> None:
    placed = Placed(reports=FOUND, problems=(), notes=("n",))

    found = check_named(placed, ["a", "b"], ["/x"])

    assert (found.reports, found.problems, found.notes) == ({"b1": 1, "b2": 2}, (), ("n",))


def test_a_name_on_no_host_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"^c: no host has such a topic or partition in /x, b2:/y\.$"):
        check_named(Placed(reports=FOUND, problems=(), notes=()), ["a", "c"], ["/x", "b2:/y"])


def test_a_name_on_no_host_is_a_problem_if_a_host_failed() -> None:
    placed = Placed(reports=FOUND, problems=(("b3:", "its disk is gone"),), notes=())

    found = check_named(placed, ["c"], ["/x"])

    assert found.problems == (
        ("b3:", "its disk is gone"),
        ("/x", "c: no host that could be asked has such a topic or partition."),
    )
