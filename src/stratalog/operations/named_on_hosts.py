"""Topics and partitions by name on the hosts of a cluster: at least one host must have each name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

from stratalog.engine.hosts import OfHost, Placed
from stratalog.errors import UsageError


class NamedReport(NamedTuple, Generic[OfHost]):
    """The report of one host, and which of the given names it has.

    Without `is_complete`, one of its directories could not be read, and may have more of the names.
    """

    names: tuple[str, ...]
    report: OfHost
    is_complete: bool = True


def check_named(
    placed: Placed[NamedReport[OfHost]], names: Sequence[str], places: Sequence[str]
) -> Placed[OfHost]:
    """The reports alone. UsageError if one of the names is on no host, as for local directories.

    If a directory could not be placed or read, or a host failed, the name may be there: then a problem is
    reported instead.
    """
    known = {name for found in placed.reports.values() for name in found.names}
    missing = [name for name in names if name not in known]
    where = ", ".join(places)
    is_complete = all(found.is_complete for found in placed.reports.values())
    if missing and is_complete and not placed.problems:
        raise UsageError(f"{missing[0]}: no host has such a topic or partition in {where}.")
    return Placed(
        reports={host: found.report for host, found in placed.reports.items()},
        problems=(
            *placed.problems,
            *(
                (where, f"{name}: no host that could be asked has such a topic or partition.")
                for name in missing
            ),
        ),
        notes=placed.notes,
    )
