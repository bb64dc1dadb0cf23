"""A disk that refuses to work below a directory, and a node with three directories on it."""

from __future__ import annotations

import errno
import json
from pathlib import Path

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path as AnyPath
from stratalog.files.names import TopicPartition
from stratalog.manager.manager import LogManager
from tests.manager.running import MARKER, Node, append


class BrokenDisk(Disk):
    """A disk that refuses, on request, to sync or to list anything below a directory."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: str | None = None

    def _refuse(self, path: AnyPath) -> None:
        if self.broken is not None and str(path).startswith(self.broken):
            raise DiskError(path, "Input/output error", errno.EIO)

    def sync(self, path: AnyPath) -> None:
        self._refuse(path)
        super().sync(path)

    def replace(self, path: AnyPath, data: bytes) -> None:  # type: ignore[override]
        self._refuse(path)
        super().replace(path, data)

    def make_directory(self, path: AnyPath) -> bool:
        self._refuse(path)
        return super().make_directory(path)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        self._refuse(source)
        super().rename(source, target)


class Three:
    """Three directories with a log each, on a disk that can break."""

    def __init__(self, root: Path) -> None:
        self.paths = [root / name for name in "abc"]
        self.disk = BrokenDisk()
        self.node = Node(*self.paths, disk=self.disk)
        self.keys = [TopicPartition("orders", number) for number in range(3)]

    def start(self) -> LogManager:
        manager = self.node.start()
        for key, path in zip(self.keys, self.paths, strict=True):
            append(manager.get_or_create_log(key, directory=path, is_new=True), b"a")
        return manager

    def break_first(self) -> None:
        self.disk.broken = str(self.paths[0])

    def epochs(self) -> list[int | None]:
        markers = [path / MARKER for path in self.paths]
        return [json.loads(path.read_text())["brokerEpoch"] if path.exists() else None for path in markers]
