"""Damaged copies of a killed broker's partitions, each decided by its seed.

A case is a partition of the quarry, the recovery point and log start offset that a checkpoint would give to
the loader, and up to three damages. Each damage describes itself in words, so that a failure can be
understood.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.kafka.log_oracle import LogOracle
from tests.kafka.recovery_quarry import Partition, Quarry

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
INDEX_SUFFIXES = SEGMENT_SUFFIXES[1:]
LENGTH_AT, EPOCH_AT, MAGIC_AT, CRC_AT = 8, 12, 16, 17
LOG_OVERHEAD = 12
# One byte of each field: offset, length, epoch, magic, CRC, attributes, delta, times, producer, count.
HEADER_BYTES = (0, 7, LENGTH_AT + 2, LENGTH_AT + 3, EPOCH_AT + 3, MAGIC_AT, CRC_AT, 22, 26, 34, 42, 50, 60)


@dataclass(slots=True, kw_only=True)
class Case:
    """A directory to recover, and what the checkpoints say about it."""

    directory: Path
    config: dict[str, str]
    recovery_point: int
    log_start_offset: int
    damages: list[str] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)  # bases of segments with a damaged log or index

    @property
    def topic(self) -> str:
        return self.directory.name.rpartition("-")[0]

    def __str__(self) -> str:
        marks = f"recovery point {self.recovery_point}, log start {self.log_start_offset}"
        return f"{self.directory.name}: {marks}; {'; '.join(self.damages) or 'as killed'}"


def make_case(quarry: Quarry, seed: int, folder: Path, oracle: LogOracle) -> Case:
    """A damaged copy in `folder`; the oracle builds the indexes of an invented segment."""
    random = Random(seed)
    partition = quarry.partitions[seed % len(quarry.partitions)]
    directory = folder / partition.directory.name
    shutil.copytree(partition.directory, directory)
    case = Case(
        directory=directory,
        config=partition.config,
        recovery_point=_recovery_point(partition, random),
        log_start_offset=_log_start_offset(partition, random),
    )
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3])):
        damage_once(case, random, oracle)
    return case


def damage_once(case: Case, random: Random, oracle: LogOracle) -> None:
    """One damage, recorded in the case."""
    Damaging(case, random, oracle).once()


def logs_in(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def batch_positions(log: bytes) -> list[int]:
    """Where batches begin, by their lengths; the last one may be incomplete or preallocated space."""
    positions, position = [], 0
    while position + LOG_OVERHEAD < len(log):
        size = int.from_bytes(log[position + LENGTH_AT : position + EPOCH_AT], "big")
        if size <= 0:
            break
        positions.append(position)
        position += LOG_OVERHEAD + size
    return positions


def _bases(partition: Partition) -> list[int]:
    return [int(log.stem) for log in logs_in(partition.directory)]


def _recovery_point(partition: Partition, random: Random) -> int:
    """The recovery point of the checkpoint, or another one that a loader must cope with."""
    bases = _bases(partition)
    inside = random.randint(bases[0], bases[-1])
    return random.choice([partition.recovery_point, 0, inside, inside, random.choice(bases), 10**6])


def _log_start_offset(partition: Partition, random: Random) -> int:
    """Mostly the checkpoint's; sometimes a base, an offset inside, or one past the log's end."""
    bases = _bases(partition)
    if random.random() < 0.7:
        return partition.log_start_offset
    return random.choice(
        [random.choice(bases), random.randint(0, bases[-1]), random.randint(0, bases[-1]), 10**6]
    )


class Damaging:
    """Damages one case, step by step."""

    def __init__(self, case: Case, random: Random, oracle: LogOracle) -> None:
        self._case = case
        self._random = random
        self._oracle = oracle
        self._directory = case.directory

    def once(self) -> None:
        """One damage of those that are possible in this directory."""
        choices: list[tuple[int, Callable[[], str]]] = [
            (4, self._cut_tail),
            (2, self._cut_any_log),
            (3, self._append_zeros),
            (2, self._append_foreign_bytes),
            (2, self._append_stale_batches),
            (6, self._flip_a_bit),
            (3, self._delete_index),
            (3, self._cut_index),
            (3, self._pad_index),
            (2, self._garble_index),
            (3, self._delete_snapshot),
            (2, self._cut_snapshot),
            (2, self._garble_snapshot),
            (1, self._add_stray_snapshot),
            (1, self._delete_all_snapshots),
            (1, self._delete_epoch_file),
            (2, self._leave_temporary_files),
            (4, self._leave_swap),
            (2, self._empty_active_segment),
            (1, self._delete_log),
        ]
        (damage,) = self._random.choices([each for _, each in choices], [weight for weight, _ in choices])
        self._case.damages.append(damage())

    def _log(self) -> Path:
        """Some .log, most likely among the last two."""
        logs = logs_in(self._directory)
        log = self._random.choice(logs[-2:] if self._random.random() < 0.5 else logs)
        self._case.touched.add(int(log.stem))
        return log

    def _cut_tail(self) -> str:
        log = logs_in(self._directory)[-1]
        return self._cut(log, self._random.choice([1, 5, 20, 60, 61, 62, 100, 1000]))

    def _cut_any_log(self) -> str:
        log = self._log()
        return self._cut(log, self._random.randint(1, max(1, log.stat().st_size)))

    def _cut(self, file: Path, count: int) -> str:
        size = max(0, file.stat().st_size - count)
        with file.open("r+b") as opened:
            opened.truncate(size)
        return f"{file.name} cut to {size} bytes"

    def _append(self, file: Path, data: bytes, what: str) -> str:
        with file.open("ab") as opened:
            opened.write(data)
        return f"{len(data)} bytes of {what} behind {file.name}"

    def _append_zeros(self) -> str:
        return self._append(self._log(), bytes(self._random.choice([1, 11, 16, 61, 100, 4096])), "zeros")

    def _append_foreign_bytes(self) -> str:
        foreign = self._random.randbytes(self._random.choice([1, 12, 17, 61, 300, 4096]))
        return self._append(self._log(), foreign, "noise")

    def _append_stale_batches(self) -> str:
        """Whole batches from another place, as a file system may bring back after a power cut."""
        source = self._log().read_bytes()
        positions = batch_positions(source)
        if not positions:
            return "nothing"
        start = self._random.choice(positions)
        piece = source[start : start + self._random.choice([200, 700, 3000])]
        return self._append(self._log(), piece, "stale batches")

    def _flip_a_bit(self) -> str:
        log = self._log()
        data = bytearray(log.read_bytes())
        positions = batch_positions(bytes(data))
        if not positions:
            return "nothing"
        batch = self._random.choice(positions)
        anywhere = self._random.randrange(max(1, len(data) - batch))
        at = batch + self._random.choice([anywhere, self._random.choice(HEADER_BYTES)])
        at = min(at, len(data) - 1)
        bit = self._random.randrange(8)
        if any(at == each + MAGIC_AT for each in positions):
            bit = 1  # magic 0: one above 2 is taken for 2 by Kafka, which test_recovery_differences.py shows
        if any(0 <= at - each < 4 for each in positions) and log != logs_in(log.parent)[-1]:
            at += 4  # offsets beyond the segments that follow are a difference shown there too
        data[at] ^= 1 << bit
        log.write_bytes(data)
        return f"bit {bit} of byte {at} flipped in {log.name} (batch at {batch})"

    def _index(self) -> Path | None:
        log = self._log()
        found = [log.with_suffix(suffix) for suffix in INDEX_SUFFIXES]
        found = [file for file in found if file.exists()]
        return self._random.choice(found) if found else None

    def _delete_index(self) -> str:
        index = self._index()
        if index is None:
            return "nothing"
        index.unlink()
        return f"{index.name} deleted"

    def _cut_index(self) -> str:
        index = self._index()
        return self._cut(index, self._random.choice([1, 8, 12, 34, 10**6])) if index else "nothing"

    def _pad_index(self) -> str:
        log = self._log()
        index = log.with_suffix(self._random.choice([".index", ".timeindex"]))
        if not index.exists():
            return "nothing"
        entry_size = 8 if index.suffix == ".index" else 12
        largest = int(self._case.config["segment.index.bytes"]) // entry_size * entry_size
        return self._append(index, bytes(max(0, largest - index.stat().st_size)), "padding")

    def _garble_index(self) -> str:
        index = self._index()
        if index is None or index.stat().st_size == 0:
            return "nothing"
        data = bytearray(index.read_bytes())
        at = self._random.randrange(min(len(data), 60))
        data[at] ^= 1 << self._random.randrange(8)
        index.write_bytes(data)
        return f"a bit of byte {at} flipped in {index.name}"

    def _snapshot(self) -> Path | None:
        found = sorted(self._directory.glob("*.snapshot"))
        return self._random.choice(found) if found else None

    def _delete_snapshot(self) -> str:
        snapshot = self._snapshot()
        if snapshot is None:
            return "nothing"
        snapshot.unlink()
        return f"{snapshot.name} deleted"

    def _delete_all_snapshots(self) -> str:
        for snapshot in self._directory.glob("*.snapshot"):
            snapshot.unlink()
        return "all snapshots deleted"

    def _cut_snapshot(self) -> str:
        snapshot = self._snapshot()
        return self._cut(snapshot, self._random.choice([1, 7, 48, 10**6])) if snapshot else "nothing"

    def _garble_snapshot(self) -> str:
        snapshot = self._snapshot()
        if snapshot is None or snapshot.stat().st_size == 0:
            return "nothing"
        data = bytearray(snapshot.read_bytes())
        data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
        snapshot.write_bytes(data)
        return f"a bit flipped in {snapshot.name}"

    def _add_stray_snapshot(self) -> str:
        snapshot = self._snapshot()
        if snapshot is None:
            return "nothing"
        offset = self._random.choice([int(snapshot.stem) + 1, int(snapshot.stem) + 7, 10**7])
        stray = snapshot.with_name(f"{offset:020}.snapshot")
        if not stray.exists():
            shutil.copy(snapshot, stray)
        return f"stray {stray.name}, a copy of {snapshot.name}"

    def _delete_epoch_file(self) -> str:
        (self._directory / "leader-epoch-checkpoint").unlink(missing_ok=True)
        return "leader-epoch-checkpoint deleted"

    def _leave_temporary_files(self) -> str:
        """Leftovers of a delayed deletion and of writing a checkpoint."""
        log = self._log()
        left = [f"{int(log.stem) + 1:020}{suffix}.deleted" for suffix in SEGMENT_SUFFIXES]
        left += [f"{log.stem}.timeindex.deleted", "leader-epoch-checkpoint.tmp"]
        if self._random.random() < 0.5:
            left += [
                f"{int(log.stem) + 3:020}{suffix}.cleaned" for suffix in (".log", ".index", ".timeindex")
            ]
        for name in left:
            (self._directory / name).write_bytes(self._random.randbytes(self._random.choice([0, 70])))
        return f"left over: {' '.join(left)}"

    def _empty_active_segment(self) -> str:
        """As right after a roll: a .log and nothing else."""
        last = int(logs_in(self._directory)[-1].stem)
        self._case.touched.add(last)  # the one that was active, its indexes not cut
        end = last + 5000
        (self._directory / f"{end:020}.log").touch()
        return f"{end:020}.log is there and empty"

    def _delete_log(self) -> str:
        logs = logs_in(self._directory)
        if len(logs) < 2:
            return "nothing"
        log = self._random.choice(logs[:-1])
        log.unlink()
        return f"{log.name} deleted"

    def _leave_swap(self) -> str:
        """A replacement of some segments, as the cleaner writes it, interrupted at some point."""
        logs = logs_in(self._directory)
        if len(logs) < 3:
            return "nothing"
        first = self._random.randrange(len(logs) - 2)
        replaced = logs[first : self._random.randint(first + 1, min(first + 3, len(logs) - 1))]
        made = self._replacement(replaced)
        self._case.touched.update(int(log.stem) for log in replaced)
        state = self._random.randrange(6)
        suffixes = {path.suffix: ".swap" for path in made}
        if state == 0:
            suffixes = dict.fromkeys(suffixes, ".cleaned")
        elif state == 1:
            suffixes |= dict.fromkeys((suffix for suffix in suffixes if suffix != ".log"), ".cleaned")
        elif state == 2:
            suffixes = {".log": ".swap"}
        elif state == 4:
            self._set_aside(replaced[:1])
        elif state == 5:
            self._set_aside(replaced)
            suffixes[".log"] = ""
        for path in made:
            if path.suffix in suffixes:
                shutil.move(path, self._directory / (path.name + suffixes[path.suffix]))
        names = " ".join(log.name for log in replaced)
        return f"replacement of {names} left in state {state}"

    def _replacement(self, replaced: list[Path]) -> list[Path]:
        """A segment with some batches of each, none of them stale, and indexes that Kafka built for it."""
        folder = self._directory.parent.parent / "replacement-0"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        kept, last_offset = b"", -1
        for log in replaced:
            data = log.read_bytes()
            for start, end in _ranges(data):
                base_offset = int.from_bytes(data[start : start + LENGTH_AT], "big")
                if self._random.random() < 0.7 and base_offset > last_offset:
                    kept, last_offset = kept + data[start:end], base_offset
        (folder / replaced[0].name).write_bytes(kept)
        config = self._case.config | {"segment.index.bytes": "4096"}
        self._oracle.ask("recoverIndexes", dir=str(folder), config=config)
        return [file for suffix in SEGMENT_SUFFIXES for file in folder.glob(f"*{suffix}")]

    def _set_aside(self, logs: list[Path]) -> None:
        for log in logs:
            for suffix in SEGMENT_SUFFIXES:
                file = log.with_suffix(suffix)
                if file.exists():
                    file.rename(file.with_name(file.name + ".deleted"))


def _ranges(log: bytes) -> list[tuple[int, int]]:
    positions = batch_positions(log)
    ends = [*positions[1:], len(log)]
    if positions:
        size = int.from_bytes(log[positions[-1] + LENGTH_AT : positions[-1] + EPOCH_AT], "big")
        ends[-1] = min(len(log), positions[-1] + LOG_OVERHEAD + size)
    return list(zip(positions, ends, strict=True))
