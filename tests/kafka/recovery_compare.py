"""Kafka's recovery of a case and ours, compared file by file, but for what is meant to differ.

What is meant to differ is stated in docs/compatibility.md, "Recovery: deliberate differences". Where Kafka
believes an index below the recovery point that we look at, it is asked a second time, with that index taken
away: then it builds what we must have built. So every expected byte is Kafka's own.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tests import naive
from tests.kafka.directories import names_in, snapshot_entries
from tests.kafka.log_oracle import Json, LogOracle, Refusal, Step
from tests.kafka.recovery_cases import INDEX_SUFFIXES, Case, logs_in

NEVER = "never"  # no bytes of any file
CRC_END = 6  # in a snapshot; what follows is under the CRC


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A directory after Kafka loaded it and closed it cleanly, or why it did not."""

    directory: Path
    marks: Json
    refusal: Refusal | None


def kafka_recovers(oracle: LogOracle, case: Case, now_ms: int) -> Recovered:
    """Kafka loads the case's directory as after a crash, and closes the log as a shutdown does."""
    return _load(oracle, case, now_ms, clean=False)


def kafka_recovers_without_indexes(oracle: LogOracle, case: Case, folder: Path, now_ms: int) -> Recovered:
    """The same with a copy of which the offset indexes of all damaged segments were deleted."""
    copy = copied(case, folder)
    for base in case.touched:
        for left in copy.directory.glob(f"{base:020}.index*"):
            left.unlink()
    return kafka_recovers(oracle, copy, now_ms)


def kafka_opens(oracle: LogOracle, case: Case, marks: Json, now_ms: int) -> Recovered:
    """Kafka opens the directory as one that was stopped cleanly at these marks."""
    stopped = replace(case, recovery_point=marks["logEnd"], log_start_offset=marks["logStart"])
    return _load(oracle, stopped, now_ms, clean=True)


def _load(oracle: LogOracle, case: Case, now_ms: int, *, clean: bool) -> Recovered:
    oracle.ask("setClock", ms=now_ms)
    given = {
        "dir": str(case.directory),
        "config": case.config,
        "clean": clean,
        "logStart": case.log_start_offset,
        "recoveryPoint": case.recovery_point,
    }
    answer = oracle.do(Step("open", given))
    if isinstance(answer, Refusal):
        return Recovered(directory=case.directory, marks=None, refusal=answer)
    marks = oracle.ask("describe")
    oracle.ask("close")
    return Recovered(directory=case.directory, marks=marks, refusal=None)


def copied(case: Case, folder: Path) -> Case:
    """The case in a copy of its directory."""
    directory = folder / case.directory.name
    shutil.copytree(case.directory, directory)
    return replace(case, directory=directory)


def contents(directory: Path) -> dict[str, object]:
    """Every file that lives on, by name: snapshots as their entries, all others as their bytes."""
    found: dict[str, object] = {}
    for name in names_in(directory):
        data = (directory / name).read_bytes()
        found[name] = _entries_or_bytes(data) if name.endswith(".snapshot") else data
    return found


def _entries_or_bytes(snapshot: bytes) -> object:
    """A damaged snapshot that nobody needed to read stays as it is, on both sides."""
    if len(snapshot) >= CRC_END and naive.crc32c(snapshot[CRC_END:]) == int.from_bytes(
        snapshot[2:CRC_END], "big"
    ):
        return snapshot_entries(snapshot)
    return snapshot


def differences(case: Case, ours: Path, theirs: Path, rebuilt: Recovered | None) -> list[str]:
    """What is neither as Kafka left it nor, of a damaged segment below the recovery point, as it rebuilds it.

    `case` is the directory as it was before, `rebuilt` what kafka_recovers_without_indexes made of it.
    """
    expected, found = contents(theirs), contents(ours)
    again = contents(rebuilt.directory) if rebuilt and not rebuilt.refusal else {}
    flushed = _flushed_bases(case, ours)
    told = []
    for name in sorted(expected.keys() | found.keys()):
        allowed = [expected.get(name, NEVER)]
        file = Path(name)
        is_flushed = file.stem.isdigit() and int(file.stem) in flushed & case.touched
        if is_flushed and file.suffix in INDEX_SUFFIXES:
            allowed.append(again.get(name, NEVER))
        if is_flushed and file.suffix == ".log" and (case.directory / name).exists():
            allowed = [(case.directory / name).read_bytes()]
        if found.get(name, NEVER) not in allowed:
            told.append(_told(name, found.get(name, NEVER), allowed))
    return told


def _flushed_bases(case: Case, directory: Path) -> set[int]:
    """Segments that end at or before the recovery point: nobody scans them to find a torn tail."""
    bases = [int(log.stem) for log in logs_in(directory)]
    return {base for base, following in pairwise(bases) if following <= case.recovery_point}


def _told(name: str, found: object, allowed: list[object]) -> str:
    return f"{name}: ours {_shown(found)}, Kafka's {' or '.join(map(_shown, allowed))}"


def _shown(content: object) -> str:
    if isinstance(content, bytes):
        return f"{len(content)} bytes" + (f" {content!r}" if len(content) < 80 else "")
    return str(content)
