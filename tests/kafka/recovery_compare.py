"""Compares Kafka's recovery of a case with ours, file by file, except for deliberate differences.

These are listed in docs/compatibility.md, "Recovery: deliberate differences". Where Kafka trusts an index
below the recovery point that we check, Kafka runs a second time without that index: then it builds what we
must have built. Where stale batches hide the log's end from Kafka, it runs a second time without them. So
every expected byte is Kafka's own.
"""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import crc32c

from stratalog.limits import INT32_MAX
from tests.kafka.directories import names_in
from tests.kafka.log_oracle import Json, LogOracle, Refusal, Step
from tests.kafka.recovery_cases import INDEX_SUFFIXES, Case, batch_positions, logs_in

Contents = dict[str, object]
ENTRY_SIZES = {".index": 8, ".timeindex": 12}
LAST_OFFSET = 3  # in an entry of a snapshot
NEVER = "never"  # no bytes of any file
TEMPORARY = ".tmp"  # nobody reads it, and the next writer replaces it
OFFSET_SIZE = 8  # of a batch's base offset, which comes first
CRC_END = 6  # in a snapshot; the CRC covers what follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A directory after Kafka loaded it and closed it cleanly, or why it did not."""

    directory: Path
    marks: Json
    refusal: Refusal | None

    @property
    def has_lost_its_end(self) -> bool:
        """Whether the log ends where its last segment begins, although that segment has batches."""
        if self.refusal is not None:
            return False
        base_offset, size = self.marks["segments"][-1]
        return bool(size) and self.marks["logEnd"] == base_offset

    @property
    def has_begun_anew(self) -> bool:
        """Whether the log is empty and ends where it starts, as after an end before its start."""
        if self.refusal is not None:
            return False
        return bool(self.marks["segments"] == [[self.marks["logStart"], 0]])


def kafka_recovers(oracle: LogOracle, case: Case, now_ms: int) -> Recovered:
    """Kafka loads the case's directory as after a crash, and closes the log as a shutdown does."""
    return _load(oracle, case, now_ms, clean=False)


def kafka_rebuilds(oracle: LogOracle, case: Case, kafka: Recovered, folder: Path, now_ms: int) -> Recovered:
    """Kafka's second recovery of its own result, without the offset indexes of all damaged segments."""
    copy = copied(replace(case, directory=kafka.directory), folder)
    for base in case.touched:
        (copy.directory / f"{base:020}.index").unlink(missing_ok=True)
    return kafka_recovers(oracle, copy, now_ms)


def without_stale_tail(oracle: LogOracle, case: Case, folder: Path, now_ms: int) -> Case:
    """The case; if stale batches hide its end from Kafka, cut after the last batch that Kafka indexes.

    Kafka finds that batch without a log start offset, because a log that ends before its start is deleted.
    One byte more stays, so that recovery cuts it off and removes the segments after it, if there are any.
    """
    seen = kafka_recovers(oracle, copied(replace(case, log_start_offset=0), folder / "seen"), now_ms)
    if not seen.has_lost_its_end:
        return case
    copy = copied(case, folder / "cut")
    base, _ = seen.marks["segments"][-1]
    recovered = seen.directory / f"{base:020}.log"
    last_entry = recovered.with_suffix(".index").read_bytes()[-ENTRY_SIZES[".index"] :]
    last_indexed = int.from_bytes(last_entry[4:], "big")
    stale = next(at for at in batch_positions(recovered.read_bytes()) if at > last_indexed)
    with (copy.directory / recovered.name).open("r+b") as log:
        log.truncate(stale + 1)
    return copy


def kafka_opens(oracle: LogOracle, case: Case, marks: Json, now_ms: int) -> Recovered:
    """Kafka opens the directory as after a clean stop, with these marks."""
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


def contents(directory: Path) -> Contents:
    """Every file that lives on, by name: snapshots as their entries, all others as their bytes."""
    found: Contents = {}
    for name in names_in(directory):
        if name.endswith(TEMPORARY):
            continue
        data = (directory / name).read_bytes()
        found[name] = _entries_or_bytes(data) if name.endswith(".snapshot") else data
    return found


def _entries_or_bytes(snapshot: bytes) -> object:
    """A damaged snapshot that nobody needed to read stays as it is, on both sides."""
    if len(snapshot) >= CRC_END and crc32c.crc32c(snapshot[CRC_END:]) == int.from_bytes(
        snapshot[2:CRC_END], "big"
    ):
        return sorted(struct.iter_unpack(">qhiqiqiq", snapshot[CRC_END + 4 :]))
    return snapshot


def differences(case: Case, ours: Path, theirs: Path, rebuilt: Recovered) -> list[str]:
    """Files that differ from Kafka's result, and from its second result if a damaged segment counts as
    flushed.

    `case` is the directory as it was before.
    """
    expected, found = contents(theirs), contents(ours)
    _forget_kept_bases(case, expected, found)
    _forget_producers_before_the_start(case, expected, found)
    again = {} if rebuilt.refusal else contents(rebuilt.directory)
    looked_at = _flushed_bases(case, ours) & case.touched
    told = []
    for name in sorted(expected.keys() | found.keys()):
        allowed = [expected.get(name, NEVER)]
        file = Path(name)
        is_looked_at = file.stem.isdigit() and int(file.stem) in looked_at
        if (is_looked_at and file.suffix in INDEX_SUFFIXES) or (looked_at and file.suffix == ".snapshot"):
            if rebuilt.refusal:
                continue  # Kafka cannot build it here
            allowed += [again.get(name, NEVER), _without_padding(expected.get(name), file.suffix)]
        if is_looked_at and file.suffix == ".log":
            # Not one byte of it may change; if Kafka cuts it, it must be as before.
            before = [
                each.read_bytes() for each in case.directory.glob(f"{name}*") if each.suffix != ".deleted"
            ]
            allowed = [data for data in before if data == expected.get(name)] or list(before)
        if file.suffix == ".txnindex" and b"" in allowed:
            allowed.append(NEVER)  # the same to a broker, which creates the file when a transaction aborts
        if found.get(name, NEVER) not in allowed:
            told.append(_told(name, found.get(name, NEVER), allowed))
    return told


def _without_padding(index: object, suffix: str) -> object:
    """An index as it is when cut to its entries."""
    size = ENTRY_SIZES.get(suffix)
    if size is None or not isinstance(index, bytes):
        return NEVER
    entries = [index[at : at + size] for at in range(0, len(index), size)]
    while entries and not any(entries[-1]):
        entries.pop()
    return b"".join(entries)


def _forget_kept_bases(case: Case, expected: Contents, found: Contents) -> None:
    """Leave out our empty segment at the base of one that was split before its first batch.

    Kafka keeps no segment there. What was split off has the name of its first batch on both sides.
    """
    for log in logs_in(case.directory):
        first_offset = int.from_bytes(log.read_bytes()[:OFFSET_SIZE], "big")
        is_split_off = f"{first_offset:020}.log" in expected and first_offset - int(log.stem) > INT32_MAX
        if is_split_off and log.name not in expected and found.get(log.name) == b"":
            for name in [name for name in found if Path(name).stem == log.stem]:
                del found[name]


def _forget_producers_before_the_start(case: Case, expected: Contents, found: Contents) -> None:
    """Leave out of our snapshots the producers whose last batch is deleted, if Kafka's snapshot lacks them.

    If the log starts inside a segment, Kafka replays the whole segment or only the part after the start,
    depending on the case. Then it may know the marker of a transaction that began before the start, but no
    batch.
    """
    for name, entries in found.items():
        known = expected.get(name)
        if name.endswith(".snapshot") and isinstance(entries, list) and isinstance(known, list):
            forgotten = [
                one for one in entries if one not in known and one[LAST_OFFSET] < case.log_start_offset
            ]
            producers = {one[0] for one in forgotten}
            found[name] = [one for one in entries if one not in forgotten]
            expected[name] = [one for one in known if one[0] not in producers or one[LAST_OFFSET] >= 0]


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
