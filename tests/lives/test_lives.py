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
from tests.lives.node import CompactingLife, FollowerLife, MovingLife, NodeLife, QueueLife, ReplicaLife

# Each chunk has lives of its own, and the last one is not stopped any more once there are enough images.
CHUNKS = 8 if profile.current() == profile.DEEP else 4
IMAGES = {  # of the deep run
    NodeLife: 70_000,
    LoneLife: 40_000,
    ReplicaLife: 25_000,
    CompactingLife: 30_000,
    MovingLife: 20_000,
    QueueLife: 10_000,
    FollowerLife: 5_000,
}
# 10,000 in all, most of them of lone logs: one of their images takes a quarter of the time.
IN_CI = {
    NodeLife: 1_000,
    LoneLife: 7_200,
    ReplicaLife: 360,
    CompactingLife: 560,
    MovingLife: 480,
    QueueLife: 280,
    FollowerLife: 120,
}
SEEDS_OF_A_CHUNK = 10_000
MANY_LIVES = 10
MOST_IMAGES_OF_A_LIFE = 100  # on average, so that the deep ones are of 2,000 lives or more


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("life_of", IMAGES)
def test_a_crash_at_any_step_takes_nothing_that_was_flushed(
    life_of: type[Life], chunk: int, counts: Count
) -> None:
    crashes, lives = Crashes(_images(life_of)), 0
    while not crashes.is_done:
        life_of(chunk * SEEDS_OF_A_CHUNK + lives, crashes).run()
        lives += 1
    assert lives < MANY_LIVES or lives >= crashes.by_kind.total() / MOST_IMAGES_OF_A_LIFE

    counts("crash images by kind of crash", crashes.by_kind)
    counts("crash images by what was under way", crashes.by_operation)
    counts("lives", {life_of.__name__: lives})


def _images(life_of: type[Life]) -> int:
    """How many images of a chunk: all, those of `IN_CI`, or a few."""
    return profile.examples(IMAGES[life_of] // CHUNKS, quick=20, ci=IN_CI[life_of] // CHUNKS)
