"""A cluster whose hosts are all this machine: a function runs once for each, after a trip through pickle."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

from stratalog.engine.engine import Result, TaskFunction
from stratalog.errors import StratalogError
from stratalog.files.reading import DiskReader


class Hosts:
    """As `HostsEngine` says."""

    def __init__(self, *names: str, disk: DiskReader | None = None) -> None:
        self._names = names
        self._disk = disk or DiskReader()
        self.expected: Sequence[str] = ()

    def run_on_hosts(
        self, function: TaskFunction[str, Result], *, expected: Sequence[str] = ()
    ) -> Mapping[str, Result | StratalogError]:
        self.expected = expected
        found: dict[str, Result | StratalogError] = {}
        for name in self._names:
            try:
                sent = pickle.loads(pickle.dumps(function))
                found[name] = pickle.loads(pickle.dumps(sent(self._disk, name)))
            except StratalogError as error:
                found[name] = error
        return found
