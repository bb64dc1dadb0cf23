"""Look for lives that break a promise: `python -m tests.lives node 0 200` tries 200 of them.

Prints each broken promise, with the seed first, and continues. `-v` shows every step.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable

from tests.lives.crashing import Crashes
from tests.lives.life import Life
from tests.lives.lone import LoneLife
from tests.lives.node import CompactingLife, FollowerLife, MovingLife, NodeLife, QueueLife, ReplicaLife


def main() -> None:
    kind, first, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    kinds: dict[str, Callable[[int, Crashes], Life]] = {
        "node": NodeLife,
        "lone": LoneLife,
        "replica": ReplicaLife,
        "compacting": CompactingLife,
        "moving": MovingLife,
        "queue": QueueLife,
        "follower": FollowerLife,
    }
    life_of = kinds[kind]
    crashes, began, broken = Crashes(), time.monotonic(), 0
    for seed in range(first, end):
        life = life_of(seed, crashes)
        try:
            life.run()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            broken += 1
            notes = [note for note in getattr(error, "__notes__", ()) if " at step " in note]
            print(f"{seed}: {type(error).__name__}: {error} {' '.join(notes)}"[:300])
            if "-v" in sys.argv:
                traceback.print_exc()
    seconds = time.monotonic() - began
    print(f"{crashes.by_kind.total():,} images of {end - first} lives in {seconds:.0f} s, {broken} broken")
    for counted in (crashes.by_operation, crashes.by_kind):
        print(", ".join(f"{name}: {number}" for name, number in counted.most_common()))


main()
