"""Damage for `stratalog demo` to find, of the kinds that disks, people and crashes cause in log files.

It changes files without going through `stratalog.files`, as real damage does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stratalog.files.names import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT
from stratalog.operations.audit.audit_report import AuditReport
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import Severity

ZEROS_SIZE = 64 << 10
CUT_SIZE = 1000
FOREIGN = b"2026-03-01 04:12:09,113 WARN the file system was full and this line went somewhere else\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One damage: the file, the first damaged byte, and the kind."""

    path: str
    position: int
    what: str


def plant(logs: Sequence[Path]) -> list[Planted]:
    """Damage five segments, each in its own way; if there are five topics, each in a different one."""
    ways: list[Callable[[str], Planted]] = [
        flip_a_bit,
        tear_the_tail,
        append_zeros,
        cut_the_middle,
        overwrite,
    ]
    topics = sorted({_topic(log) for log in logs})
    planted = []
    for number, way in enumerate(ways):
        topic = topics[number % len(topics)]
        own = [str(log) for log in logs if _topic(log) == topic]
        # Torn tails and zeros appear where a broker was writing when it died: in the last segment.
        planted.append(way(own[-1] if way in (tear_the_tail, append_zeros) else own[len(own) // 2]))
    return planted


def cut_the_power(directory: Path) -> None:
    """Delete the clean-shutdown file, and the checkpoint that says what the broker has flushed."""
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT):
        (directory / name).unlink()


def flip_a_bit(path: str) -> Planted:
    """Flip one bit inside the records of a batch in the middle of the file, as a failing disk may do."""
    position, size = _middle_batch(path)
    with Path(path).open("r+b") as file:
        file.seek(position + size - 1)
        last = file.read(1)[0]
        file.seek(position + size - 1)
        file.write(bytes([last ^ 0x10]))
    return Planted(path=path, position=position, what="one bit flipped")


def tear_the_tail(path: str) -> Planted:
    """Cut off a part of the last batch, as if the broker was killed in the middle of a write."""
    position, size = _batches(path)[-1]
    os.truncate(path, position + size // 2)
    return Planted(path=path, position=position, what="last batch torn")


def append_zeros(path: str) -> Planted:
    """Append zeros, as after a power cut: the file system extended the file, but the data never arrived."""
    position = Path(path).stat().st_size
    os.truncate(path, position + ZEROS_SIZE)
    return Planted(path=path, position=position, what="zeros appended")


def cut_the_middle(path: str) -> Planted:
    """Cut out a piece, as in a bad copy: all batches after it are at too low a position."""
    position, _size = _middle_batch(path)
    with Path(path).open("r+b") as file:
        file.seek(position + CUT_SIZE * 2)
        rest = file.read()
        file.seek(position + CUT_SIZE)
        file.write(rest)
        file.truncate()
    return Planted(path=path, position=position, what=f"{CUT_SIZE} bytes cut out")


def overwrite(path: str) -> Planted:
    """Write foreign bytes where a batch should start."""
    position, _size = _middle_batch(path)
    with Path(path).open("r+b") as file:
        file.seek(position)
        file.write(FOREIGN)
    return Planted(path=path, position=position, what="foreign bytes")


def log_damages(report: AuditReport) -> list[AuditFinding]:
    """The damaged stretches of logs, without the index entries that are wrong because of them."""
    return [
        finding
        for finding in report.findings
        if finding.file.endswith(".log")
        and finding.position is not None
        and finding.severity is not Severity.NOTE
    ]


def unexpected(planted: Sequence[Planted], report: AuditReport) -> list[str]:
    """A sentence for each difference between the planted and the found damage; empty if there is none."""
    found = {
        (str(Path(each.directory, each.partition, each.file)), each.position or 0)
        for each in log_damages(report)
    }
    done = {(damage.path, damage.position): damage.what for damage in planted}
    missed = [
        f"{done[place]} in {place[0]} at byte {place[1]} was not found"
        for place in sorted(done.keys() - found)
    ]
    extra = [
        f"damage in {place[0]} at byte {place[1]} was found, but was not planted"
        for place in sorted(found - done.keys())
    ]
    return missed + extra


def _topic(log: Path) -> str:
    return log.parent.name.rpartition("-")[0]


def _middle_batch(path: str) -> tuple[int, int]:
    batches = _batches(path)
    return batches[len(batches) // 2]


def _batches(path: str) -> list[tuple[int, int]]:
    """Position and size of each batch: the lengths lead from one to the next."""
    batches = []
    with Path(path).open("rb") as file:
        position = 0
        while len(start := file.read(12)) == 12:
            size = 12 + int.from_bytes(start[8:12], "big")
            batches.append((position, size))
            position += size
            file.seek(position)
    return batches
