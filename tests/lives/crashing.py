"""Stops lives at steps of the disk, and checks every disk that may be found there."""

from __future__ import annotations

from collections import Counter

from stratalog.files.simulated import SimulatedDisk
from stratalog.files.simulated_crash import NOTHING_LOST
from stratalog.limits import INT64_MAX
from tests.lives.book import Lost
from tests.lives.life import Life

IMAGES_AT_A_STEP = 4
TWICE_OF = 8  # one image in this many is closed, opened and checked once more


class Crashes:
    """Checks images, and counts them by kind of crash and by the current operation."""

    def __init__(self, most: int = INT64_MAX) -> None:
        """After `most` images a life goes on to its end without being stopped."""
        self.by_kind: Counter[str] = Counter()
        self.by_operation: Counter[str] = Counter()
        self._most = most

    @property
    def is_done(self) -> bool:
        return self.by_kind.total() >= self._most

    def __call__(self, life: Life) -> None:
        """Check what a crash at this step may leave."""
        if self.is_done:
            return
        for image in life.disk.crash(IMAGES_AT_A_STEP):
            self.judge(life, image)

    def judge(self, life: Life, image: SimulatedDisk) -> None:
        loss = image.loss
        kind = "killed, nothing lost" if loss == NOTHING_LOST else f"power cut: {loss.names}, {loss.writes}"
        self.by_kind[kind] += 1
        operation = life.doing[-1].split()[0] if life.doing else "start"
        self.by_operation[operation] += 1
        again = self.by_kind.total() % TWICE_OF == 0
        try:
            with life.opened(image, shut_down=again) as logs:
                for key, book in life.books.items():
                    if key in logs:
                        found = book.judge(logs[key])
                        book.judge_retries(logs[key], found)
                    elif book.is_created:
                        raise Lost(f"{key} is gone")
            if again:
                with life.opened(image, shut_down=True) as logs:
                    for key, log in logs.items():
                        life.books[key].judge(log)
        except BaseException as error:
            # As Lost, whatever the error is, so that the current operation does not handle it.
            lost = Lost(str(error) if isinstance(error, Lost) else repr(error))
            lost.add_note(f"{kind}, at step {life.disk.steps} while {life.doing}")
            raise lost from error
