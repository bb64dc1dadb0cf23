"""Lives of programs, stopped at steps of the disk: flushed records are there, and every log opens.

The counts are those of crash images: 10,000 in `make test`, 200,000 in `make test-deep`. Which lives these
are follows from the number of the test.
"""

from __future__ import annotations

import pytest

from tests import profile
from tests.counting import Count
from tests.lives.crashing import Crashes
from tests.lives.life import Life
from tests.lives.lone import LoneLife
from tests.lives.node import CompactingLife, MovingLife, NodeLife, QueueLife, ReplicaLife

# A chunk ends with its last life, some images after the number that it was to have: few chunks waste few.
CHUNKS = 8 if profile.current() == profile.DEEP else 4
IMAGES = {  # of the deep run
    NodeLife: 70_000,
    LoneLife: 40_000,
    ReplicaLife: 30_000,
    CompactingLife: 30_000,
    MovingLife: 20_000,
    QueueLife: 10_000,
}
SEEDS_OF_A_CHUNK = 10_000
MANY_LIVES = 10
MOST_IMAGES_OF_A_LIFE = 100  # on average, so that the deep ones are of 2,000 lives or more


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("life_of", IMAGES)
def test_a_crash_at_any_step_takes_nothing_that_was_flushed(
    life_of: type[Life], chunk: int, counts: Count
) -> None:
    wanted = _images(IMAGES[life_of] // CHUNKS)
    crashes, lives = Crashes(), 0
    while crashes.by_kind.total() < wanted:
        life_of(chunk * SEEDS_OF_A_CHUNK + lives, crashes).run()
        lives += 1
    assert lives < MANY_LIVES or lives >= crashes.by_kind.total() / MOST_IMAGES_OF_A_LIFE

    counts("crash images by kind of crash", crashes.by_kind)
    counts("crash images by what was under way", crashes.by_operation)
    counts("lives", {life_of.__name__: lives})


def _images(deep: int) -> int:
    """All of them, a twentieth, or a few."""
    return max(profile.examples(deep, quick=20) // (2 if profile.current() == profile.CI else 1), 10)
