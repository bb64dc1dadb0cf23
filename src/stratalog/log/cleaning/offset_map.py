"""The offset map of compaction: for each key the last offset at which it was written.

The map holds only a key's hash, so an entry has the same size for a key of any length. The hash is
SipHash-128 with a new random key for each use of the map: so a client cannot choose a key that collides with
another client's key, whose record would then be removed. 120 bits of the hash are used, 32 of them to choose
the slot: docs/decisions/0018-keyed-hash.md has the odds.

A map takes as many keys as Kafka's map of the same size, whose entries have 24 bytes. So a round of cleaning
ends at the same offset as Kafka's. An entry here has only 16 bytes, so there is memory to spare. It allows
one slot in four to stay empty, which keeps searches short. It also allows two bits for each offset: whether
it was stored, and whether it is the last of its key. With these bits the second pass needs neither hashes nor
lookups for the records that the first pass has seen. Kafka: SkimpyOffsetMap, with MD5
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import private_memory
from stratalog.errors import UsageError
from stratalog.limits import INT32_MAX, INT64_MAX
from stratalog.log.cleaning.runs import DecodedRun
from stratalog.records.kernels import offset_map as kernel
from stratalog.records.kernels.decode import RECORD, RecordTable
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.offset_map import Hashes
from stratalog.records.kernels.walk import BATCH, BatchTable

SLOT_SIZE = 24  # the size of an entry in Kafka's map: it determines how many keys a map takes
_OWN_SLOT_SIZE = 16
_LEAST_BITS_SIZE = 1 << 20  # a small map may use this many more bytes for its bits
MAX_SLOTS = INT32_MAX
DEFAULT_LOAD_FACTOR = 0.9  # log.cleaner.io.buffer.load.factor
NO_OFFSET = -1


class OffsetMap:
    """Maps keys to their last offsets, in memory that is not touched before it is needed.

    The slots and the bits together take at most `memory_size` bytes; in a small map the bits may take one MiB
    more.

    `latest_offset` is the last offset in the map: records after it are not looked up. `too_small_for` is the
    end of a dirty part that had too many keys when it was read backwards: the next round does not try that
    again. `hash_key` is for tests.
    """

    __slots__ = (
        "_bits_size",
        "_hash_key",
        "_key_given",
        "_newest",
        "_noted",
        "_slots",
        "_slots_size",
        "_start_offset",
        "_state",
        "capacity",
        "slots",
        "too_small_for",
    )

    def __init__(
        self,
        memory_size: int,
        *,
        load_factor: float = DEFAULT_LOAD_FACTOR,
        hash_key: tuple[int, int] | None = None,
    ) -> None:
        self.slots = min(memory_size // SLOT_SIZE, MAX_SLOTS)
        # One slot stays empty, at which every search ends.
        self.capacity = min(int(self.slots * load_factor), self.slots - 1)
        if self.slots * load_factor <= 1 or self.capacity < 1:
            raise UsageError(
                f"an offset map of {memory_size} bytes has no room for a key at a load factor of "
                f"{load_factor}: a key takes {SLOT_SIZE} bytes. See log.cleaner.dedupe.buffer.size."
            )
        self._slots_size = _OWN_SLOT_SIZE * (self.capacity * 4 // 3 + 1)
        self._bits_size = max(_LEAST_BITS_SIZE, memory_size - self._slots_size)
        self._key_given = hash_key
        self.too_small_for: int | None = None
        self.clear()

    def clear(self) -> None:
        """Forget everything, and draw a new key for the hash."""
        # In huge pages: lookups are random, and with small pages each would also miss the TLB.
        self._slots = np.frombuffer(private_memory(self._slots_size), np.uint64)
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._state[[kernel.LATEST, kernel.SEEN]] = NO_OFFSET
        self._forget_bits()
        first, second = self._key_given or (secrets.randbits(64), secrets.randbits(64))
        self._hash_key = np.uint64(first), np.uint64(second)

    def _forget_bits(self) -> None:
        self._start_offset = INT64_MAX
        self._noted = self._newest = np.empty(0, np.uint8)

    def note_offsets(self, start_offset: int, end_offset: int) -> None:
        """Note which offsets of [start_offset, end_offset) are stored, if there is memory for that.

        This is for a caller that puts all records from start_offset on, in the order of their segments.
        """
        self._forget_bits()
        size = (end_offset - start_offset + 7) // 8
        if 2 * size <= self._bits_size:
            self._start_offset, self._noted = start_offset, np.zeros(size, np.uint8)

    def settle(self) -> None:
        """Called when all records are stored. If their offsets do not ascend, the notes cannot be used."""
        if self._state[kernel.DISORDER]:
            self._forget_bits()
        self._newest = np.zeros(len(self._noted), np.uint8)
        if len(self._noted):
            kernel.mark_newest(self._slots, self._state, self._start_offset, self._newest)

    def go_backwards(self, start_offset: int, end_offset: int) -> bool:
        """Prepare the empty map for `put_newest`; False if there is no memory to note all offsets."""
        self.note_offsets(start_offset, end_offset)
        if not len(self._noted):
            return False
        self._newest = np.zeros(len(self._noted), np.uint8)
        self._state[kernel.SEEN] = end_offset
        self.latest_offset = end_offset - 1
        return True

    def needs_hashes(self, base_offset: int) -> bool:
        """Whether the records of the segment with this base offset are to be looked up by their keys."""
        return base_offset < self._start_offset

    @property
    def size(self) -> int:
        """The number of keys in the map."""
        return int(self._state[kernel.ENTRIES])

    @property
    def latest_offset(self) -> int:
        return int(self._state[kernel.LATEST])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self._state[kernel.LATEST] = offset

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    def hash_rows(self, data: Bytes, rows: RecordTable, hashes: Hashes) -> None:
        """Write the hash of each row's key to `hashes`."""
        hash_keys(data, rows, *self._hash_key, hashes)

    def put_records(
        self,
        batches: BatchTable,
        skipped: NDArray[np.bool_],
        rows: RecordTable,
        hashes: Hashes,
        start_offset: int,
    ) -> tuple[int, bool]:
        """Store the records from start_offset on; returns (how many were seen, whether the map is full)."""
        return kernel.put_records(
            self._slots, self.capacity, self._state, self._noted, batches, skipped, rows, hashes, start_offset
        )

    def put_newest(self, batches: BatchTable, rows: RecordTable, hashes: Hashes) -> int:
        """Store a run of a log that is read backwards; `find` is right for its records from then on.

        Returns `kernel.ALL_STORED`, or why the log must be read forwards.
        """
        return kernel.put_newest(
            self._slots,
            self.capacity,
            self._state,
            self._noted,
            self._newest,
            batches,
            rows,
            hashes,
            self._start_offset,
        )

    def put_keys(self, keys: Sequence[bytes]) -> None:
        """Store keys without offsets, for a caller that only asks whether a key is one of these."""
        data, rows = _rows_of(keys)
        hashes = np.empty((len(keys), 2), np.uint64)
        self.hash_rows(data, rows, hashes)
        _, is_full = self.put_records(np.zeros(1, BATCH), np.zeros(1, np.bool_), rows, hashes, 0)
        if is_full:
            raise UsageError(f"{len(keys)} keys do not fit into a map that has room for {self.capacity}.")

    def put_sampled(
        self,
        batches: BatchTable,
        skipped: NDArray[np.bool_],
        sampled: NDArray[np.bool_],
        rows: RecordTable,
        hashes: Hashes,
        start_offset: int,
    ) -> bool:
        """As `put_records`, but only for keys of a sampled batch or in the map; True if the map was full."""
        return kernel.put_sampled(
            self._slots, self.capacity, self._state, batches, skipped, sampled, rows, hashes, start_offset
        )

    def find(self, run: DecodedRun, found: NDArray[np.int64]) -> None:
        """For each row of a run, the last offset of its key, or any offset above the row's; -1 for none."""
        if len(run.hashes) == len(run.rows):
            self.get_offsets(run.hashes, found)
            return
        kernel.find_noted(
            self._slots,
            self._state,
            self._noted,
            self._newest,
            self._start_offset,
            run.data,
            run.rows,
            *self._hash_key,
            found,
        )

    def get_offsets(self, hashes: Hashes, found: NDArray[np.int64]) -> None:
        """The last offset of each key with one of these hashes; -1 if it is not in the map."""
        kernel.get_offsets(self._slots, self._state, hashes, found)

    def get(self, key: bytes) -> int:
        """The last offset of one key; -1 if it is not in the map."""
        found = np.empty(1, np.int64)
        data, rows = _rows_of([key])
        hashes = np.empty((1, 2), np.uint64)
        self.hash_rows(data, rows, hashes)
        self.get_offsets(hashes, found)
        return int(found[0])


def _rows_of(keys: Sequence[bytes]) -> tuple[Bytes, RecordTable]:
    rows = np.zeros(len(keys), RECORD)
    ends = np.cumsum([len(key) for key in keys])
    rows["key_size"] = [len(key) for key in keys]
    rows["key_position"] = ends - rows["key_size"]
    return byte_array(b"".join(keys)), rows
