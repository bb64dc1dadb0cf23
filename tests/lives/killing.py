"""Kills a writer repeatedly, and checks what the next one finds.

    python -m tests.lives.killing HOME --kills 100

A process for each kill would take seconds to start. So this process imports and warms everything, opens no
log itself, and forks: a child writes (`killed_writer.py`), is killed, and the next child opens what it left.
A chain of kills uses the same directories, so that damage would add up; then they are closed and opened once
more, and the next chain begins with empty ones.

A kill comes from outside at any moment, or from inside at the n-th change of a kind of file, so that every
step of a roll, a cleaning, a move and a recovery is hit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.lives.acknowledged import Acknowledged
from tests.lives.journal import read_journal, state_of
from tests.lives.killed_plan import FAR, OPEN, POLICIES, Plan
from tests.lives.killed_reader import read, runs_of
from tests.lives.killed_writer import warm, write
from tests.lives.killing_disk import Trap
from tests.waiting import PATIENCE_S

CHAIN = 10  # kills in the same directories
_MOST_LINES = 800  # in the journal of a writer that is killed from outside
_TRAPPED_LINES = 1500  # a writer that has not reached its trap by then is killed from outside
# The files or steps at which a writer is killed, and the latest change.
_PATTERNS = [
    ("", 400),
    (".log", 200),
    (".cleaned", 25),
    (".swap", 20),
    (".deleted", 40),
    ("cutting", 12),
    ("cutting", 12),
    ("checkpoint", 25),
    (".snapshot", 25),
    ("index", 60),
]
_MOVING_PATTERNS = [("-future", 150), ("moving", 150), ("-delete", 20)]


class Campaign:
    """A number of kills, from one seed. `kills` counts them by kind, `counts` what else happened."""

    def __init__(self, home: Path, seed: int, *, has_moves: bool, keeps_copies: bool = False) -> None:
        self.kills: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self._home = home
        self._draw = random.Random(seed)
        self._has_moves = has_moves
        self._keeps_copies = keeps_copies
        self._known = Acknowledged(POLICIES)
        self._chain = 0
        self._number = 0
        self._trap_before: Trap | None = None
        self._stop = threading.Event()

    def run(self, kills: int) -> None:
        """Kill `count` times, each time during a move if there are moves; stops at the first finding."""
        what = "kills during a move" if self._has_moves else "kills"
        while self.counts[what] < kills and not self.findings:
            self._begin_chain()
            for _ in range(CHAIN):
                if self.counts[what] < kills and not self.findings:
                    self._kill()
            for _ in range(2):  # the result of a clean close is checked too
                if not self.findings:
                    self._live(is_last=True)
            self.counts += self._known.counts

    @property
    def directories(self) -> list[Path]:
        return [self._home / f"chain-{self._chain}" / name for name in ("one", "two")]

    def _begin_chain(self) -> None:
        if self._chain and not self._keeps_copies:
            shutil.rmtree(self._home / f"chain-{self._chain}")
        self._chain += 1
        self._number = 0
        self._known = Acknowledged(POLICIES)
        for directory in self.directories:
            directory.mkdir(parents=True)

    def _kill(self) -> None:
        self._live(is_last=False)
        self.counts["kills"] += 1
        names = [name for directory in self.directories for name in _names_below(directory)]
        if any(name.endswith((".cleaned", ".swap")) for name in names):
            self.counts["kills during a cleaning"] += 1

    def _live(self, *, is_last: bool) -> None:
        """One life, from the start of a process to its end, with the checks afterwards."""
        self._number += 1
        draw = self._draw
        plan = self._plan(f"{self._number}.writer", None if is_last else self._trap(), is_last=is_last)
        if self._keeps_copies:
            for directory in self.directories:
                shutil.copytree(directory, f"{directory}-{self._number}")
        reading, telling = os.pipe()
        writer = _fork(lambda: write(plan, self._known, partial(os.write, telling)), closing=reading)
        os.close(telling)
        reader_plan = self._plan(f"{self._number}.reader", None)
        reader = None
        if self._has_moves and not is_last:
            reader = _fork(lambda: read(reader_plan), closing=reading)
        try:
            is_open = (told := self._wait_for(reading)) == OPEN
            while told and (told != FAR or is_last):
                told = self._wait_for(reading)
            is_trapped = told == b""
            if not is_trapped:
                self._stop.wait(draw.random() / 50)
        finally:
            os.close(reading)
            status = _end(writer, has_to_end=is_last)
            if reader is not None:
                _end(reader)
        if not is_last:
            self.kills[_words_for(plan.trap) if is_trapped else "from outside, at any moment"] += 1
        if not is_open and not is_last:
            self.counts["kills before the logs were open"] += 1
        self._judge(plan, reader_plan if reader is not None else None, is_open=is_open)
        expected = 0 if is_last else -signal.SIGKILL
        if os.waitstatus_to_exitcode(status) != expected:
            self.findings.append(f"life {self._number} ended with status {status}, not as it should.")

    def _wait_for(self, descriptor: int) -> bytes | None:
        """The next signal of a writer: b"" if it is dead, None if it makes no progress."""
        ready, _, _ = select.select([descriptor], [], [], PATIENCE_S)
        if ready:
            return os.read(descriptor, 1)
        self.findings.append(f"life {self._number} did not go on for {PATIENCE_S} s.")
        return None

    def _plan(self, name: str, trap: Trap | None, *, is_last: bool = False) -> Plan:
        return Plan(
            number=self._number,
            seed=self._draw.getrandbits(32),
            directories=[str(directory) for directory in self.directories],
            journal=str(self._home / f"chain-{self._chain}" / f"{name}.journal"),
            lines=int(_MOST_LINES * self._draw.random() ** 2) if trap is None else _TRAPPED_LINES,
            trap=trap,
            has_moves=self._has_moves,
            is_last=is_last,
        )

    def _trap(self) -> Trap | None:
        draw = self._draw
        if self._number == 2:
            return Trap(".cleaned", draw.randint(1, 10), "after")  # once in each chain: during a cleaning
        if draw.random() < 0.4:
            return None
        pattern, most = draw.choice(_PATTERNS + 4 * _MOVING_PATTERNS if self._has_moves else _PATTERNS)
        return Trap(pattern, draw.randint(1, most), draw.choice(["before", "half", "after"]))

    def _judge(self, plan: Plan, reader: Plan | None, *, is_open: bool) -> None:
        known = self._known
        lines = read_journal(plan.journal) if Path(plan.journal).exists() else []
        begun = 0
        for line in lines:
            if line[0] == "state":
                known.compare(line[1], state_of(line[2:]))
            else:
                known.note([line])
            begun += (line == ["did", "moves begun"]) - (line == ["did", "moves done"])
        if reader is not None and Path(reader.journal).exists():
            seen = read_journal(reader.journal)
            known.findings += [f"the reader failed:\n{line[1]}" for line in seen if line[0] == "error"]
            for topic, run in runs_of(seen):
                known.saw(topic, run)
        if begun and is_open:
            self.counts["kills during a move"] += 1
        for finding in known.findings:
            where = f"chain {self._chain}, life {self._number} (the one before: {self._trap_before})"
            self.findings.append(f"{where}: {finding}")
        self._trap_before = plan.trap


def _words_for(trap: Trap | None) -> str:
    """What a writer did when it killed itself."""
    match trap:
        case None:
            return "by an error of its own"
        case Trap(pattern="cutting" | "moving"):
            return f"while {trap.pattern} a log"
        case Trap(pattern=""):
            return "at a change of any file"
    return f"at a change of a file with {trap.pattern} in its name"


def _names_below(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("*/*")]


def _fork(work: Callable[[], object], *, closing: int | None) -> int:
    """A child that only runs this function, and then exits."""
    assert threading.active_count() == 1  # the child would have its locks, but not the thread
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if closing is not None:
            os.close(closing)
        work()
        code = 0
    finally:
        os._exit(code)


def _end(pid: int, *, has_to_end: bool = False) -> int:
    """Kill a child unless it ends by itself; its status."""
    if not has_to_end:
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--moves", action="store_true", help="with moves under way, and a reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="keep the directories as each life found them")
    options = parser.parse_args()
    warm(options.home / "warm")
    campaign = Campaign(options.home, options.seed, has_moves=options.moves, keeps_copies=options.keep)
    campaign.run(options.kills)
    print(
        json.dumps(
            {"kills": campaign.kills, "counts": campaign.counts, "findings": campaign.findings[:20]}, indent=1
        )
    )
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
