"""Finds the keys, or prefixes of keys, that take the most space, in memory that does not grow with them.

A table has room for some tens of thousands of keys. When it is full, the keys with the smallest counts are
removed, and the largest removed count is added to a total. A key that is added later may have been removed
before: its count may be too low, by at most that total. So keys that are large from the start are counted
exactly, and for every other key the largest possible error is known.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.log.cleaning.filter import FilteredRun
from stratalog.log.cleaning.runs import DecodedRun
from stratalog.records.kernels import tally as kernel
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.offset_map import Hashes
from stratalog.records.kernels.walk import CONTROL

SLOTS_COUNT = 1 << 15
KEY_ROOM = 128  # bytes of a key that are kept to show it
_FULL = 3 / 4
_FIELDS = ("versions", "bytes")
_AMOUNTS = (*_FIELDS, "freed", "freed_squares", "draws")
# About the size of a record without its key, value and headers: even an empty record takes space.
RECORD_OVERHEAD = 8

Amounts = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """A key or a prefix of keys. `bytes` counts keys, values and headers, decompressed.

    `freed` is its share of what compaction frees, `freed_bound` the error bound of a sample, and `draws` the
    number of drawn batches that had it. The true versions and bytes may be higher, by at most `missed_...`.
    `key` holds only the first bytes of a key that is longer.
    """

    key: bytes
    key_size: int
    versions: int
    bytes: int
    freed: int
    freed_bound: int
    draws: int
    missed_versions: int
    missed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """How keys are grouped: by their first `size` bytes, or up to and including the first `delimiter`."""

    size: int | None = None
    delimiter: int | None = None


class Tally:
    """Adds up the amounts of each key, or of each prefix."""

    def __init__(self, prefix: Prefix | None = None, *, slots_count: int = SLOTS_COUNT) -> None:
        self._prefix = prefix
        self._slots = np.zeros(slots_count, kernel.SLOT)
        self._keys = np.zeros((slots_count, KEY_ROOM), np.uint8)
        self._state = np.array([0, max(2, int(slots_count * _FULL))], np.int64)
        self._missed = np.zeros(2, np.float64)
        self._hash_key = np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64))
        self._hashes = np.empty((0, 2), np.uint64)
        self.unseen_size = 0.0
        """How many bytes of any one key a sample may have missed because it has drawn none of its batches.

        `freed_bound` adds twice the standard error to it.
        """

    def __getstate__(self) -> dict[str, Any]:
        """Only the slots in use: a tally of a few keys is sent in a few bytes."""
        used = np.flatnonzero(self._slots["is_used"])
        state = {
            name: value for name, value in vars(self).items() if name not in ("_slots", "_keys", "_hashes")
        }
        return {**state, "count": len(self._slots), "used": (self._slots[used], self._keys[used])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        count, (slots, keys) = state.pop("count"), state.pop("used")
        vars(self).update(state)
        self._slots = np.zeros(count, kernel.SLOT)
        self._keys = np.zeros((count, KEY_ROOM), np.uint8)
        self._hashes = np.empty((0, 2), np.uint64)
        self._fill(slots, keys)

    def add(self, data: Bytes, rows: RecordTable, amounts: Amounts) -> None:
        """Add amounts to the key of each row: versions, bytes, bytes freed, their squares, and draws."""
        rows, hashes = self._hashed(data, rows)
        done = 0
        while True:
            done = kernel.tally(
                self._slots, self._keys, self._state, self._missed, data, rows, hashes, amounts, done
            )
            if done == len(rows):
                return
            self._prune()

    def blank(self) -> Tally:
        """An empty tally for a part of the work; `merge` adds it to this one."""
        tally = Tally(self._prefix, slots_count=len(self._slots))
        tally._hash_key = self._hash_key
        return tally

    def merge(self, other: Tally) -> None:
        """Add the counts of a tally that `blank` created."""
        mine, theirs = np.flatnonzero(self._slots["is_used"]), np.flatnonzero(other._slots["is_used"])
        slots = np.concatenate([self._slots[mine], other._slots[theirs]])
        keys = np.concatenate([self._keys[mine], other._keys[theirs]])
        hashes = np.stack([slots["low"], slots["high"]], axis=1)
        _, first, group = np.unique(hashes, axis=0, return_index=True, return_inverse=True)
        group, count = group.reshape(-1), len(first)
        merged = slots[first]
        for field in _AMOUNTS:
            merged[field] = np.bincount(group, weights=slots[field], minlength=count)
        is_mine, is_theirs = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        is_mine[group[: len(mine)]] = True
        is_theirs[group[len(mine) :]] = True
        for i, field in enumerate(_FIELDS):
            # A tally that does not have a key may have removed it earlier.
            merged[f"missed_{field}"] = (
                np.bincount(group, weights=slots[f"missed_{field}"], minlength=count)
                + np.where(is_mine, 0.0, self._missed[i])
                + np.where(is_theirs, 0.0, other._missed[i])
            )
        self._missed += other._missed
        self.unseen_size += other.unseen_size
        staying = np.arange(count) if count <= self._state[1] else self._largest(merged)
        self._fill(merged[staying], keys[first[staying]])

    def distinct(self, data: Bytes, rows: RecordTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(the first row of each distinct key or prefix, for each row the index of its key in that list)."""
        _, hashes = self._hashed(data, rows)
        # Half of the hash is enough: two keys of a batch collide once in many millions of batches.
        _, first, source = np.unique(hashes[:, 0], return_index=True, return_inverse=True)
        return first, source

    def _hashed(self, data: Bytes, rows: RecordTable) -> tuple[RecordTable, Hashes]:
        """The rows with their keys shortened to the prefix, and the hashes of these keys."""
        if self._prefix is not None:
            rows = rows.copy()
            size, delimiter = self._prefix.size, self._prefix.delimiter
            kernel.cut_keys(data, rows, -1 if size is None else size, -1 if delimiter is None else delimiter)
        if len(rows) > len(self._hashes):
            self._hashes = np.empty((2 * len(rows), 2), np.uint64)
        hashes = self._hashes[: len(rows)]
        hash_keys(data, rows, *self._hash_key, hashes)
        return rows, hashes

    def largest(self, field: str, count: int, *, least_draws: int = 0) -> list[KeyCount]:
        """The keys with the most `versions`, `bytes` or `freed`, of those that were drawn often enough."""
        used = np.flatnonzero((self._slots["is_used"] != 0) & (self._slots["draws"] >= least_draws))
        order = np.argsort(-self._slots[field][used], kind="stable")[:count]
        return [self._count(int(index)) for index in used[order]]

    def _count(self, index: int) -> KeyCount:
        slot = self._slots[index]
        key_size = int(slot["key_size"])
        return KeyCount(
            key=self._keys[index, :key_size].tobytes(),
            key_size=key_size,
            versions=round(float(slot["versions"])),
            bytes=round(float(slot["bytes"])),
            freed=round(float(slot["freed"])),
            freed_bound=round(2 * float(slot["freed_squares"]) ** 0.5 + self.unseen_size),
            draws=round(float(slot["draws"])),
            missed_versions=round(float(slot["missed_versions"])),
            missed_bytes=round(float(slot["missed_bytes"])),
        )

    def _prune(self) -> None:
        used = np.flatnonzero(self._slots["is_used"])
        staying = used[self._largest(self._slots[used])]
        self._fill(self._slots[staying], self._keys[staying])

    def _largest(self, slots: kernel.TallySlots) -> NDArray[np.int64]:
        """The slots that stay: an eighth of the table with the most versions, an eighth with the most bytes.

        A key that is added later may lack up to the count of the largest removed slot.
        """
        kept = np.zeros(len(slots), np.bool_)
        most = max(1, len(self._slots) // 8)
        for field in _FIELDS:
            kept[np.argpartition(-slots[field], most)[:most]] = True
        for i, field in enumerate(_FIELDS):
            self._missed[i] += slots[field][~kept].max(initial=0)
        return np.flatnonzero(kept)

    def _fill(self, slots: kernel.TallySlots, keys: NDArray[np.uint8]) -> None:
        """Replaces all slots."""
        self._slots[:] = np.zeros(1, kernel.SLOT)[0]
        self._state[0] = len(slots)
        kernel.put_back(self._slots, self._keys, slots, keys)


def counted_rows(run: DecodedRun, start_offset: int) -> NDArray[np.bool_]:
    """Which rows of a run are users' records with a key, from an offset on."""
    batches, rows = run.batches, run.rows
    is_control = (batches["magic"] == 2) & (batches["attributes"] & CONTROL != 0)
    counted: NDArray[np.bool_] = (
        ~is_control[rows["batch"]] & (rows["key_size"] >= 0) & (rows["offset"] >= start_offset)
    )
    return counted


def payload_sizes(rows: RecordTable) -> NDArray[np.int64]:
    """Bytes of key, value and headers of each row."""
    sizes: NDArray[np.int64] = (
        np.maximum(rows["key_size"], 0).astype(np.int64) + np.maximum(rows["value_size"], 0)
    ) + rows["headers_size"]
    return sizes


def freed_shares(run: DecodedRun, kept: FilteredRun) -> Amounts:
    """The bytes that each batch of a run lost, divided among its removed records in proportion to size."""
    batches, rows = run.batches, run.rows
    count = len(batches)
    # The base offset of a kept batch is one of its old offsets, so it shows which batch this was.
    source = np.searchsorted(batches["last_offset"], kept.batches["base_offset"])
    written = np.bincount(source, weights=kept.batches["size"], minlength=count)
    freed = batches["size"] - written[:count]
    return _divided(run, freed, np.where(kept.keep, 0.0, payload_sizes(rows) + RECORD_OVERHEAD))


def disk_shares(run: DecodedRun) -> Amounts:
    """The bytes of each batch in its file, divided among its records in proportion to size."""
    return _divided(run, run.batches["size"], (payload_sizes(run.rows) + RECORD_OVERHEAD).astype(np.float64))


def _divided(run: DecodedRun, sizes: NDArray[Any], weights: Amounts) -> Amounts:
    """A size for each batch, divided among its records in proportion to their weights."""
    of_row, count = run.rows["batch"], len(run.batches)
    totals = np.bincount(of_row, weights=weights, minlength=count)[:count]
    rates = np.divide(sizes, totals, out=np.zeros(count), where=totals > 0)
    shares: Amounts = weights * rates[of_row]
    return shares


def lost_of(run: DecodedRun, kept: FilteredRun, shares: Amounts) -> float:
    """How many of the bytes that a run loses belong to records without a key."""
    if not kept.records_without_key:
        return 0.0
    batches, rows = run.batches, run.rows
    is_control = (batches["magic"] == 2) & (batches["attributes"] & CONTROL != 0)
    # Records of an aborted transaction are removed for that reason, with or without a key.
    is_lost = (rows["key_size"] < 0) & ~kept.keep & ~(is_control | kept.is_dropped)[rows["batch"]]
    return float(shares[is_lost].sum())


class KeyTally:
    """Observes the runs of a cleaning; counts what each key has in the log, and how much of it is freed.

    With several passes over one log, each record is counted only once: `begin_pass` says from which offset on
    the records are new. `lost` is how many freed bytes belong to records without a key: the cleaner deletes
    these records although nothing replaces them.
    """

    def __init__(self, tallies: list[Tally]) -> None:
        self._tallies = tallies
        self._new_from = 0
        self.lost = 0.0

    def begin_pass(self, new_from: int) -> None:
        self._new_from = new_from

    def observe(self, run: DecodedRun, kept: FilteredRun) -> None:
        rows = run.rows
        is_counted = counted_rows(run, 0)
        is_new = is_counted & (rows["offset"] >= self._new_from)
        amounts = np.zeros((len(rows), kernel.AMOUNTS), np.float64)
        amounts[:, 0] = is_new
        amounts[:, 1] = np.where(is_new, payload_sizes(rows), 0)
        amounts[:, 2] = shares = freed_shares(run, kept)
        self.lost += lost_of(run, kept, shares)
        chosen = np.flatnonzero(is_counted)
        users, given = (rows, amounts) if len(chosen) == len(rows) else (rows[chosen], amounts[chosen])
        for tally in self._tallies:
            tally.add(run.data, users, given)
