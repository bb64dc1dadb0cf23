"""Compares us with a rival: in interleaved rounds; the figure is the ratio of the best times.

A machine is never quiet. If both sides run in turns, they suffer the same disturbances, and the best of
several rounds is closest to the real cost. A figure is the rival's best time divided by our best time: above
1, we are faster.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import NoReturn

SMOKE_SCALE = 0.01


class Rounds:
    """One benchmark's run; `end` prints the figures and exits 1 if one is below its floor."""

    def __init__(self, question: str, parser: argparse.ArgumentParser | None = None) -> None:
        """`parser` may have options of the benchmark itself; `self.options` has their values."""
        parser = parser or argparse.ArgumentParser(description=question)
        parser.add_argument(
            "--smoke", action="store_true", help="a hundredth of the data, to see that it runs"
        )
        parser.add_argument("--rounds", type=int, default=9, help="how often each side runs (default 9)")
        parser.add_argument(
            "--alone", action="store_true", help="run only our side, and print seconds, not figures"
        )
        parser.add_argument(
            "--scale", type=float, default=1.0, help="use this share of the data (default 1.0)"
        )
        self.options = options = parser.parse_args()
        self.scale = SMOKE_SCALE if options.smoke else options.scale
        self._smoke = options.smoke
        self._alone = options.alone
        self._rounds = 1 if options.smoke else options.rounds if options.alone else max(5, options.rounds)
        self._figures: list[tuple[str, float, float, float]] = []
        print(question.strip().splitlines()[0])

    def compare(
        self,
        figure: str,
        *,
        ours: Callable[[], object],
        rival: Callable[[], object],
        floor: float,
        work: str,
        amount: float,
    ) -> None:
        """Run both in turns; each call processes `amount` of `work` (bytes, records)."""
        if self._alone:
            ours()
            self._print_seconds(figure, [_seconds(ours) for _ in range(self._rounds)])
            return
        ours(), rival()  # compiles and loads kernels, and faults pages in
        times: list[tuple[float, float]] = []
        for _ in range(self._rounds):
            times.append((_seconds(rival), _seconds(ours)))
        best_rival, best_ours = min(t[0] for t in times), min(t[1] for t in times)
        self._note(figure, times, floor)
        rates = f"rival {amount / best_rival:,.0f} {work}/s, ours {amount / best_ours:,.0f} {work}/s"
        print(f"{figure}: {rates}", flush=True)

    def compare_times(
        self,
        figure: str,
        *,
        ours: Callable[[], float],
        rival: Callable[[], float],
        floor: float,
        unit: str,
        rounds: int | None = None,
    ) -> None:
        """As `compare`, for calls that return their own time, such as the median of many lookups.

        Give `rounds` if a round takes minutes; then there is no warm-up round.
        """
        if self._alone:
            ours()
            self._print_seconds(figure, [ours() for _ in range(self._rounds)])
            return
        if rounds is None:
            ours()
            rival()
        times = [(rival(), ours()) for _ in range(min(rounds or self._rounds, self._rounds))]
        self._note(figure, times, floor)
        best_rival, best_ours = min(t[0] for t in times), min(t[1] for t in times)
        print(f"{figure}: rival {best_rival:.3f} {unit}, ours {best_ours:.3f} {unit}", flush=True)

    def state(self, figure: str, ratio: float, floor: float, middle: float | None = None) -> None:
        """Record a figure that is not a time, such as memory, or one that was measured elsewhere."""
        self._figures.append((figure, ratio, ratio if middle is None else middle, floor))

    def _print_seconds(self, figure: str, times: list[float]) -> None:
        """Print the best of our rounds, for `tools/bench.py compare`."""
        print(f"{figure}: {min(times):.6f} s alone", flush=True)

    def _note(self, figure: str, times: list[tuple[float, float]], floor: float) -> None:
        best_rival, best_ours = min(t[0] for t in times), min(t[1] for t in times)
        self._figures.append((figure, best_rival / best_ours, median(r / o for r, o in times), floor))

    def end(self) -> NoReturn:
        """Print `figure: ratio` for each figure, and exit."""
        if self._alone:
            sys.exit(0)
        for name, ratio, middle, floor in self._figures:
            # Rounded down: a figure just below its floor must not look as if it had reached it.
            shown = math.floor(ratio * 100 + 1e-9) / 100
            print(f"{name}: {shown:.2f}  (median {middle:.2f}, floor {floor})")
        missed = [name for name, ratio, _, floor in self._figures if ratio < floor]
        sys.exit(1 if missed and not self._smoke else 0)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
