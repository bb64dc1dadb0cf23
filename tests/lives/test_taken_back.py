"""The lives notice each mend that is taken back: the guard of what they are there to guard.

Each entry puts the behaviour of before in the place of a mend. A life must then break a promise soon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.log.flushing import FlushedLog
from stratalog.log.log import Log
from stratalog.manager.copies import Copies
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_files import SegmentFiles
from tests.lives.book import Lost
from tests.lives.crashing import Crashes
from tests.lives.life import Life
from tests.lives.lone import LoneLife
from tests.lives.node import CompactingLife, NodeLife, QueueLife

MOST_LIVES = 100
Patch = Callable[[pytest.MonkeyPatch], None]


def start_lifts_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    raise_start = Log._raise_start

    def lifting(log: Log, offset: int) -> bool:
        is_news = raise_start(log, offset)
        if is_news:
            log.recovery_point = max(log.recovery_point, offset)
        return is_news

    patch.setattr(Log, "_raise_start", lifting)


def truncation_goes_from_the_lowest_segment_up(patch: pytest.MonkeyPatch) -> None:
    def upwards(log: Log, segments: Sequence[LogSegment], reason: str) -> None:
        for segment in segments:
            log._delete([segment], reason)
            log._sync_names(())

    patch.setattr(Log, "_drop", upwards)


def truncation_leaves_names_to_the_system(patch: pytest.MonkeyPatch) -> None:
    def without_sync(log: Log, segments: Sequence[LogSegment], reason: str) -> None:
        log._delete(list(reversed(segments)), reason)

    patch.setattr(Log, "_drop", without_sync)
    patch.setattr(Log, "_settle", lambda log, _: log.epochs.flush())


def names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FlushedLog, "_sync_names", lambda *_: None)


def roll_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    begin_segment = Log._begin_segment

    def at_once(log: Log, *arguments: Any) -> LogSegment:
        follows_end, log._follows_end = log._follows_end, False
        try:
            return begin_segment(log, *arguments)
        finally:
            log._follows_end = follows_end

    patch.setattr(Log, "_begin_segment", at_once)


def cleaning_goes_on_in_a_move(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Copies, "begin", lambda *_: None)
    patch.setattr(Copies, "end", lambda *_: None)


def swap_leaves_no_note(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("stratalog.manager.copies.note_move", lambda *_: None)


def moved_log_takes_appends(patch: pytest.MonkeyPatch) -> None:
    retire = Log.retire

    def still_usable(log: Log, *arguments: Any) -> None:
        retire(log, *arguments)
        log._refusal = None

    patch.setattr(Log, "retire", still_usable)


def reader_believes_a_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentFiles, "_is_named", lambda *_: True)


@pytest.mark.parametrize(
    ("life_of", "take_back", "seed"),  # the seed of a life that notices it, which spares the ones before
    [
        (QueueLife, start_lifts_the_recovery_point, 39),
        (LoneLife, truncation_goes_from_the_lowest_segment_up, 0),
        (LoneLife, truncation_leaves_names_to_the_system, 0),
        (LoneLife, names_are_not_synced, 0),
        (LoneLife, roll_does_not_wait, 0),
        (CompactingLife, cleaning_goes_on_in_a_move, 15),
        (NodeLife, swap_leaves_no_note, 0),
        (NodeLife, moved_log_takes_appends, 45),
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
