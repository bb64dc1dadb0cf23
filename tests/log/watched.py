"""A disk that records what is synced, renamed, deleted and created, in order."""

from __future__ import annotations

from pathlib import PurePath

from stratalog.files.disk import Path
from stratalog.files.simulated import SimulatedDisk
from tests.log.model import DIRECTORY, Machine


class WatchedDisk(SimulatedDisk):
    """`done` has entries such as `sync 00000000000000000000.log`; clear it to start again."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.make_directories(DIRECTORY)
        self.sync_everything()

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.done.append(f"sync {PurePath(path).name}")

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.done.append(f"sync {PurePath(path).name}/")

    def create(self, path: Path, size: int = 0) -> None:
        super().create(path, size)
        self.done.append(f"create {PurePath(path).name}")

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.done.append(f"rename {PurePath(source).name} to {PurePath(target).name}")

    def of_logs(self) -> list[str]:
        """What was done to .log files and to directories."""
        return [step for step in self.done if ".log" in step or step.endswith("/")]


def watched(**settings: int | str) -> tuple[WatchedDisk, Machine]:
    disk = WatchedDisk()
    return disk, Machine(disk, DIRECTORY, **settings)
