"""Estimates what a cleaning would free, with an error bound: samples some batches in one pass over the log.

Whether a record stays depends on all records after it, so every key has to be looked at. But only the keys of
sampled batches are stored, and only what is left of these batches is encoded and compressed:

1. The log's bytes are divided into as many equal parts as batches are wanted, and a byte is drawn from each
   part. The batch that contains this byte is sampled, so a batch's chance is in proportion to its size.
2. One pass over the log puts the keys of sampled batches into a map, and notes where they occur again. A
   record is replaced only by a later one, so the same pass can draw batches and look for later versions of
   their keys.
3. Each sampled batch is filtered as the cleaner would do it. The part of its size that this frees is a number
   between 0 and 1, and the mean of these numbers estimates the part of the log's bytes that is freed.

The bound is twice the standard error plus 3/n of the bytes. The standard error is computed from the
differences of neighbouring draws. The 3/n are for what n draws have never hit: that may still be a share of
up to 3/n (the rule of three). Keys with many versions do not distort the estimate, because batches are drawn,
not keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.log.cleaning.clean import DirtyLog, SegmentRules
from stratalog.log.cleaning.filter import FilteredRun, RunFilter
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.log.cleaning.tally import Tally, counted_rows, freed_shares, lost_of, payload_sizes
from stratalog.log.cleaning.transactions import CleanedTransactions, aborted_between
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.tally import AMOUNTS
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.segment_reader import SegmentReader

UNSEEN = 3  # of n draws: the rule of three
FEWEST = 2  # draws: a single one shows no spread
ENOUGH = 16  # draws that are needed to estimate a key's share with an error of at most a half


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The estimate of the bytes freed of `size`, and a bound: the error is smaller in 95 of 100 cases.

    `draws_count` is the number of bytes drawn; several may have hit one batch. `lost` is the estimated share
    of `freed` that belongs to records without a key.
    """

    size: int
    freed: int
    bound: int
    draws_count: int
    lost: int = 0


class _Drawn(NamedTuple):
    """A batch that was drawn `times` times; `can_discard`: aborted data, or a marker without data."""

    segment: SegmentReader
    position: int
    size: int
    times: int
    can_discard: bool


def estimate_freed(ratios: Sequence[float], size: int) -> Sampled:
    """The estimate. For each draw, in the log's order, `ratios` has the part of its batch that is freed."""
    count = len(ratios)
    if not count:
        return Sampled(size=size, freed=0, bound=size, draws_count=0)
    given = np.asarray(ratios, np.float64)
    pairs = given[: count // 2 * 2].reshape(-1, 2)
    # There is one draw for each part, so neighbouring draws differ by chance and because the log itself
    # changes. So the error is not underestimated.
    error = math.sqrt(float(((pairs[:, 0] - pairs[:, 1]) ** 2).sum())) / count
    bound = min(1.0, 2 * error + UNSEEN / count)
    return Sampled(
        size=size,
        freed=round(float(given.mean()) * size),
        bound=math.ceil(bound * size),
        draws_count=count,
    )


def sample_log(
    log: DirtyLog,
    offset_map: OffsetMap,
    *,
    draws_count: int,
    seed: int,
    now_ms: int,
    tallies: Sequence[Tally] = (),
    on_read: Callable[[int], object] = lambda _: None,
) -> Sampled:
    """Estimate what cleaning the log in one pass frees; fewer draws if the map has no room for their keys."""
    segments = [segment for segment in log.segments if segment.base_offset < log.first_uncleanable_offset]
    size = sum(segment.size for segment in segments)
    if log.first_dirty_offset >= log.first_uncleanable_offset or not size:
        return Sampled(size=size, freed=0, bound=0, draws_count=0)
    count = max(FEWEST, draws_count - draws_count % 2)
    rng = np.random.default_rng(seed)
    sampling = _Sampling(log, segments, offset_map, now_ms, on_read)
    drawn = sampling.draw(_draws(rng, count, size))
    while drawn is None:
        if count == FEWEST:
            return Sampled(size=size, freed=0, bound=size, draws_count=0)
        count = max(FEWEST, count // 4 * 2)
        drawn = sampling.draw(_draws(rng, count, size))
    ratios: list[float] = []
    lost = 0.0
    for batch in drawn:
        run, kept = sampling.filter(batch)
        lost += lost_of(run, kept, freed_shares(run, kept)) / batch.size * batch.times
        ratios += [(batch.size - len(kept.data)) / batch.size] * batch.times
        for tally in tallies:
            _add(tally, run, kept, batch, size / (count * batch.size))
    for tally in tallies:
        tally.unseen_size += UNSEEN * size / count
    found = estimate_freed(ratios, size)
    return replace(found, lost=min(found.freed, round(lost / len(ratios) * size)))


def _draws(rng: np.random.Generator, count: int, size: int) -> NDArray[np.int64]:
    """A random byte of each of `count` equal parts, ascending."""
    found = (np.arange(count) + rng.random(count)) * (size / count)
    return np.minimum(found.astype(np.int64), size - 1)


class _Sampling:
    """Draws batches of one log, and filters them."""

    def __init__(
        self,
        log: DirtyLog,
        segments: Sequence[SegmentReader],
        offset_map: OffsetMap,
        now_ms: int,
        on_read: Callable[[int], object],
    ) -> None:
        self._log, self._segments, self._map, self._on_read = log, segments, offset_map, on_read
        self._reader = RunReader(offset_map.hash_rows)
        self._rules = SegmentRules(log, now_ms)
        self._filter = RunFilter(offset_map, log.last_records)

    def draw(self, draws: NDArray[np.int64]) -> list[_Drawn] | None:
        """The batches at these bytes, whose keys go into the map; None if the map has no room for them."""
        self._map.clear()
        transactions = CleanedTransactions()
        found: list[_Drawn] = []
        position = 0  # in all segments together
        for index, segment in enumerate(self._segments):
            end = (
                self._segments[index + 1].base_offset
                if index + 1 < len(self._segments)
                else self._log.first_uncleanable_offset
            )
            transactions.add_aborted(aborted_between(self._log.segments, segment.base_offset, end))
            begin = position
            with self._reader.read(segment) as runs:
                for run in runs:
                    self._on_read(run.size)
                    can_discard = np.zeros(len(run.batches), np.bool_)
                    transactions.read_batches(run.data, run.batches, run.rows, can_discard)
                    starts = position - begin + run.batches["position"] - int(run.batches["position"][0])
                    low, high = np.searchsorted(draws, [position, position + run.size])
                    hits = np.searchsorted(starts, draws[low:high] - begin, side="right") - 1
                    times = np.bincount(hits, minlength=len(run.batches))
                    found += [
                        _Drawn(
                            segment,
                            int(starts[hit]),
                            int(run.batches["size"][hit]),
                            int(times[hit]),
                            bool(can_discard[hit]),
                        )
                        for hit in np.flatnonzero(times)
                    ]
                    if self._note(run, can_discard, times > 0):
                        return None
                    position += run.size
        self._map.latest_offset = self._log.first_uncleanable_offset - 1
        return found

    def _note(self, run: DecodedRun, skipped: NDArray[np.bool_], sampled: NDArray[np.bool_]) -> bool:
        return self._map.put_sampled(
            run.batches, skipped, sampled, run.rows, run.hashes, self._log.first_dirty_offset
        )

    def filter(self, batch: _Drawn) -> tuple[DecodedRun, FilteredRun]:
        """The drawn batch and what the cleaner leaves of it.

        Both are valid until the next one is filtered.
        """
        end = batch.position + batch.size
        with self._reader.read(_Stretch(batch.segment, end), batch.position) as runs:
            (run,) = runs
        remembered = _Remembered(batch.can_discard)
        return run, self._filter.filter(run, remembered, self._rules.of(batch.segment))


class _Stretch:
    """A segment, to be read up to a position."""

    def __init__(self, segment: SegmentReader, end: int) -> None:
        self.log_path, self.size = segment.log_path, end
        self.read_into = segment.read_into


class _Remembered(CleanedTransactions):
    """Returns the transaction state that was recorded when a batch was drawn."""

    __slots__ = ("_can_discard",)

    def __init__(self, can_discard: bool) -> None:
        super().__init__()
        self._can_discard = can_discard

    def read_batches(
        self,
        data: Bytes,  # noqa: ARG002 (as in its base)
        batches: BatchTable,  # noqa: ARG002
        rows: RecordTable,  # noqa: ARG002
        can_discard: NDArray[np.bool_],
    ) -> None:
        can_discard[:] = self._can_discard


def _add(tally: Tally, run: DecodedRun, kept: FilteredRun, batch: _Drawn, scale: float) -> None:
    """Count a drawn batch, scaled up to the part of the log that it represents."""
    chosen = np.flatnonzero(counted_rows(run, 0))
    rows = run.rows[chosen]
    amounts = np.zeros((len(rows), AMOUNTS), np.float64)
    amounts[:, 0] = 1
    amounts[:, 1] = payload_sizes(rows)
    amounts[:, 2] = freed_shares(run, kept)[chosen]
    first, source = tally.distinct(run.data, rows)
    summed = np.zeros((len(first), AMOUNTS), np.float64)
    np.add.at(summed, source, amounts)
    summed *= scale
    summed[:, 3] = summed[:, 2] ** 2
    summed[:, 4] = 1
    tally.add(run.data, rows[first], summed * batch.times)
