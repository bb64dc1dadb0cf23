"""A partition's directory on a real disk, to be damaged by hand and recovered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.log.log import Log
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.snapshot import parse_snapshot
from stratalog.log.recovery.plan import RecoveryPlan
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.run import recover_partition
from stratalog.log.recovery.survey import Survey, SurveyOptions, survey_partition
from tests.log.model import NOW, ORDERS, Machine, batch

ONE = len(batch(b"x"))


class Directory:
    """`<root>/orders-0`, with the settings that its log was written with."""

    def __init__(self, root: Path, **settings: int | str) -> None:
        self.root = root
        self.path = root / "orders-0"
        self.path.mkdir(parents=True)
        self.disk = Disk()
        self.machine = Machine(self.disk, str(self.path), **settings)
        self.quarantine = Quarantine(self.disk, root)

    @property
    def config(self) -> LogConfig:
        return self.machine.config

    def open(self, log_start_offset: int = 0) -> Log:
        return self.machine.open(log_start_offset=log_start_offset)

    def survey(self, *, clean: bool = False, recovery_point: int = 0, **options: bool) -> Survey:
        return survey_partition(
            self.disk,
            self.path,
            topic_partition=ORDERS,
            config=self.config,
            now_ms=NOW,
            recovery_point=recovery_point,
            options=SurveyOptions(had_clean_shutdown=clean, **options),
        )

    def recover(
        self,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        now_ms: int = NOW,
        **options: bool,
    ) -> RecoveryPlan:
        return recover_partition(
            self.disk,
            self.path,
            topic_partition=ORDERS,
            config=self.config,
            now_ms=now_ms,
            quarantine=self.quarantine,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            options=SurveyOptions(had_clean_shutdown=clean, **options),
        )

    def file(self, offset: int, suffix: str) -> Path:
        return self.path / f"{offset:020d}{suffix}"

    def write(self, offset: int, suffix: str, data: bytes) -> None:
        self.file(offset, suffix).write_bytes(data)

    def append(self, offset: int, suffix: str, data: bytes) -> None:
        with self.file(offset, suffix).open("ab") as file:
            file.write(data)

    def flip(self, offset: int, position: int) -> None:
        """One bit of a log."""
        data = bytearray(self.file(offset, ".log").read_bytes())
        data[position] ^= 1
        self.write(offset, ".log", bytes(data))

    def delete(self, offset: int, *suffixes: str) -> None:
        for suffix in suffixes:
            self.file(offset, suffix).unlink()

    def rename(self, offset: int, suffix: str, to: str) -> None:
        self.file(offset, suffix).rename(self.file(offset, to))

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()}

    def offsets(self, suffix: str) -> list[int]:
        return sorted(int(name.partition(".")[0]) for name in self.names if name.endswith(suffix))

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.path.iterdir()}

    def snapshot(self, offset: int) -> dict[int, ProducerStateEntry]:
        return {
            entry.producer_id: entry for entry in parse_snapshot(self.file(offset, ".snapshot").read_bytes())
        }

    def copy(self, root: Path) -> Directory:
        other = Directory.__new__(Directory)
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        other.__dict__.update(self.__dict__)
        other.root, other.path = root, root / "orders-0"
        other.quarantine = Quarantine(self.disk, root)
        return other


def comparable(contents: dict[str, bytes]) -> dict[str, Any]:
    """Files in comparable form: the producers of a snapshot have no order."""
    return {
        name: sorted(map(repr, parse_snapshot(data))) if name.endswith(".snapshot") else data
        for name, data in contents.items()
    }


def scanned(
    directory: Directory, recovery_point: int = 0, *, clean: bool = False, **options: bool
) -> list[int]:
    """The bases of the segments that a recovery reads."""
    survey = directory.survey(recovery_point=recovery_point, clean=clean, **options)
    return [task.base_offset for task in survey.scans]
