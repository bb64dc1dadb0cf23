"""The lives notice each mend that is taken back: the guard of what they are there to guard.

Each entry puts the behaviour of before in the place of a mend. A life must then break a promise soon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.log.cutter import Cutter
from stratalog.log.folder import LogFolder
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.log import Log
from stratalog.log.offsets import Cuts
from stratalog.log.roller import Roller
from stratalog.manager.copies import Copies
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from tests.lives.book import Lost
from tests.lives.crashing import Crashes
from tests.lives.life import Life
from tests.lives.lone import LoneLife
from tests.lives.node import CompactingLife, FollowerLife, MovingLife, NodeLife, QueueLife

MOST_LIVES = 100
Patch = Callable[[pytest.MonkeyPatch], None]


def start_lifts_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    raise_start = Cutter.raise_start

    def lifting(cutter: Cutter, offset: int) -> bool:
        is_news = raise_start(cutter, offset)
        if is_news:
            flusher = cutter._flusher
            flusher.recovery_point = max(flusher.recovery_point, offset)
        return is_news

    patch.setattr(Cutter, "raise_start", lifting)


def truncation_goes_from_the_lowest_segment_up(patch: pytest.MonkeyPatch) -> None:
    def upwards(cutter: Cutter, segments: Sequence[LogSegment], reason: str) -> None:
        for segment in segments:
            cutter._folder.delete([segment], reason)
            cutter._folder.sync_names(())

    patch.setattr(Cutter, "_drop", upwards)


def truncation_leaves_names_to_the_system(patch: pytest.MonkeyPatch) -> None:
    def without_sync(cutter: Cutter, segments: Sequence[LogSegment], reason: str) -> None:
        cutter._folder.delete(list(reversed(segments)), reason)

    patch.setattr(Cutter, "_drop", without_sync)
    patch.setattr(Cutter, "_settle", lambda cutter, _: cutter._epochs.flush())


def truncation_leaves_the_stored_marks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptMarks, "lower", lambda *_: None)


def emptied_log_leaves_its_start_to_a_name(patch: pytest.MonkeyPatch) -> None:
    empty = Cutter.truncate_fully_and_start_at

    def without_start(cutter: Cutter, offset: int, start: int | None = None) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Cutter, "keep_start", lambda _: None)
            empty(cutter, offset, start)

    patch.setattr(Cutter, "truncate_fully_and_start_at", without_start)


def names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogFolder, "sync_names", lambda *_: None)


def roll_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Roller, "_make_durable", lambda *_: None)


def cleaning_goes_on_in_a_move(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Copies, "begin", lambda *_: None)
    patch.setattr(Copies, "end", lambda *_: None)


def swap_leaves_no_note(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("stratalog.manager.copies.note_move", lambda *_: None)


def moved_log_takes_appends(patch: pytest.MonkeyPatch) -> None:
    retire = Log.retire

    def still_usable(log: Log, *arguments: Any) -> None:
        retire(log, *arguments)
        log._guard.refusal = None

    patch.setattr(Log, "retire", still_usable)


def copy_does_not_follow_truncations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "cuts", Cuts())


def reader_believes_a_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentReader, "_is_named", lambda *_: True)


@pytest.mark.parametrize(
    ("life_of", "take_back", "seed"),  # the seed of a life that notices it, which spares the ones before
    [
        (QueueLife, start_lifts_the_recovery_point, 39),
        (LoneLife, truncation_goes_from_the_lowest_segment_up, 4),
        (LoneLife, truncation_leaves_names_to_the_system, 0),
        (FollowerLife, truncation_leaves_the_stored_marks, 22),
        (LoneLife, emptied_log_leaves_its_start_to_a_name, 10),
        (LoneLife, names_are_not_synced, 0),
        (LoneLife, roll_does_not_wait, 0),
        (CompactingLife, cleaning_goes_on_in_a_move, 15),
        (NodeLife, swap_leaves_no_note, 0),
        (MovingLife, moved_log_takes_appends, 45),
        (MovingLife, copy_does_not_follow_truncations, 6),
        (CompactingLife, reader_believes_a_name, 0),
    ],
)
def test_a_mend_that_is_taken_back_is_noticed(
    life_of: type[Life], take_back: Patch, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_back(monkeypatch)

    with pytest.raises((Lost, CorruptRecordError)):  # the latter is what a reader may get
        _live(life_of, seed)


def _live(life_of: type[Life], first: int) -> None:
    for seed in range(first, first + MOST_LIVES):
        life_of(seed, Crashes()).run()
