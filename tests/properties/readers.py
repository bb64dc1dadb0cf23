"""Every reader of the records layer, each of them given the same damaged bytes.

Input and output are in guarded memory. Only our own errors are an outcome; any other error is raised.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.errors import StratalogError
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records import batch as headers
from stratalog.records.batch import BatchHeader, TimestampType
from stratalog.records.build import Record, build_batch, encode_batch
from stratalog.records.columns import ALL_COLUMNS, ColumnReader
from stratalog.records.compression import Scratch, decompress, decompress_into
from stratalog.records.control import EndTxnMarker, parse_control_key
from stratalog.records.internal import control_contents, decode_control, decode_internal, record_contents
from stratalog.records.internal_topics import INTERNAL_TOPICS
from stratalog.records.kernels import audit as auditing
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels import lines
from stratalog.records.kernels import walk as walking
from stratalog.records.kernels.gather import KEY, VALUE, gather, gather_headers, gather_plain
from stratalog.records.kernels.hash import hash_keys
from stratalog.records.reader import RecordBatch, read_batches
from stratalog.records.unpack import PROBLEMS, next_run
from stratalog.records.walk import WalkStop, walk_batches
from stratalog.segment.scan import ScanStop, _Scan
from tests import naive
from tests.properties.arena import Arena, Bytes
from tests.properties.damage import INT64_EDGES
from tests.properties.mutate import Case

LIMIT = 32 << 10  # of what a batch may unpack to: bombs must cost no more than this and a constant

_T = TypeVar("_T")


class Readers:
    """All readers, with reused memory; `outcomes` counts the results."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self._arena = Arena()
        self._scratch = Scratch(1 << 16)
        options: dict[str, Any] = {
            "columns": ALL_COLUMNS,
            "topic": "t",
            "include_control": True,
            "limit": LIMIT,
        }
        self._whole = ColumnReader(**options, max_rows=512)
        self._crumbs = ColumnReader(**options, max_rows=3, max_bytes=50)
        self._unchecked = ColumnReader(**options, check_crc=False, max_rows=512)
        self._part = ColumnReader(columns=("offset",), start_offset=41, end_offset=50, limit=LIMIT)

    def run(self, case: Case) -> None:
        rng = random.Random(case.number)
        # Nearly all mistakes would show at the end, but a position below zero shows only at the front.
        # The two readings of each kind are different ones, which halves the time.
        self._arena.reset(front=False)
        data = self._arena.holding(case.data)
        whole = self._columns(self._whole, data)
        self._columns(self._unchecked, data)
        self._records(data, rng, check_crc=False)
        self._everything_else(data, case, rng)

        self._arena.reset(front=True)
        data = self._arena.holding(case.data)
        assert self._columns(self._crumbs, data).equals(whole), (
            "the rows of an Arrow batch change the records"
        )
        self._columns(self._part, data)
        self._records(data, rng, check_crc=True)
        self._everything_else(data, case, rng)

        if case.number % 4 == 0:
            self._against_naive(case)

    def _everything_else(self, data: Bytes, case: Case, rng: random.Random) -> None:
        self._walk(data, case, rng)
        self._kernels(data)
        for piece in (data, self._arena.holding(_TWO_SMALL + case.data)):
            self._recover(piece, rng)
            self._audit(piece)
        self._sections(case)
        self._headers(data, case, rng)

    def _refused(self, act: Callable[..., object], label: str) -> None:
        """Do it; our own errors are an outcome, any other one ends the run."""
        try:
            act()
        except StratalogError as error:
            self.outcomes[f"{label}: {_kind(error)}"] += 1
        else:
            self.outcomes[f"{label}: fine"] += 1

    def _columns(self, reader: ColumnReader, data: Bytes) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        self._refused(lambda: batches.extend(_each(reader.read(data))), "columns")
        for batch in batches:
            batch.validate(full=True)
        return pa.Table.from_batches(batches, reader.schema)

    def _walk(self, data: Bytes, case: Case, rng: random.Random) -> None:
        batches, end, stop = naive.walk(case.data, check_crc=False)
        self.outcomes[f"walk: {stop}"] += 1
        table = self._arena.empty(2 * walking.BATCH.itemsize).view(walking.BATCH)
        position, why, index = 0, WalkStop.TABLE_FULL, 0
        while why is WalkStop.TABLE_FULL:
            walk = walk_batches(data, start=position, table=table, check_crc=False)
            position, why = walk.next_position, walk.stop
            for row in walk.headers:
                expected = batches[index]
                assert {name: row[name] for name in _SHARED_FIELDS} == {
                    name: getattr(expected, name) for name in _SHARED_FIELDS
                }
                index += 1
        assert (index, position, why.name) == (len(batches), end, stop)
        start, middle = sorted((rng.randrange(data.size + 1), rng.randrange(data.size + 1)))
        for part in (walk_batches(data, start=start), walk_batches(data, start=start, end=middle)):
            assert start <= part.next_position <= data.size

    def _records(self, data: Bytes, rng: random.Random, *, check_crc: bool) -> None:
        batches: list[RecordBatch] = []
        found = read_batches(data, check_crc=check_crc, limit=LIMIT)
        self._refused(lambda: batches.extend(_each(found)), "batches")
        for batch in batches:
            records = self._iterated(batch.records())
            for name in ("codec", "timestamp_type", "is_control", "is_transactional", "raw"):
                self._refused(lambda name=name, batch=batch: getattr(batch, name), "batch")
            if batch.facts.magic == 2:
                self._header(batch.header)
            if check_crc:
                continue
            stored = self._iterated(batch.records(stored_timestamps=True))
            assert [record[2:] for record in records] == [record[2:] for record in stored]
            for record in records[:2]:
                self._contents(record, rng)

    def _iterated(self, found: Iterator[Record]) -> list[Record]:
        records: list[Record] = []
        self._refused(lambda: records.extend(_each(found)), "records")
        return records

    def _header(self, header: BatchHeader) -> None:
        self._refused(lambda: header.codec, "header")
        assert header._replace().pack() == header.pack()
        assert header.last_sequence >= -1 or header.base_sequence < -1
        assert header.delete_horizon_ms is None or header.attributes & headers.Attributes.DELETE_HORIZON

    def _contents(self, record: Record, rng: random.Random) -> None:
        key, value = record.key, record.value
        self._refused(lambda: parse_control_key(key), "control key")
        self._refused(lambda: EndTxnMarker.parse(key, value), "marker")
        self._refused(lambda: decode_control(key, value), "control record")
        self._refused(lambda: control_contents(key, value), "control text")
        topic = rng.choice(_TOPICS)
        self._refused(lambda: decode_internal(topic, key, value), "internal record")
        self._refused(lambda: record_contents(topic, record.offset, key, value), "internal text")

    def _kernels(self, data: Bytes) -> None:
        """Decode and gather with every input and output in guarded memory."""
        walk = walk_batches(data, check_crc=False)
        table = walk.headers.copy()
        done = 0
        while done < len(table):
            run = next_run(data, table, done, self._scratch, LIMIT)
            source = run.data
            if run.data is not data:
                source = self._arena.holding(run.data[: self._scratch.used])
            self._decode(source, run.batches, is_legacy=run.is_legacy)
            if run.problem is not None:
                self.outcomes[f"unpack: {_kind(run.problem)}"] += 1
            done += len(run.batches) + (run.problem is not None)

    def _recover(self, data: Bytes, rng: random.Random) -> None:
        """The pass of a recovery, over guarded memory that has the whole file."""
        walk = walk_batches(data)
        bad = [*np.flatnonzero(~walk.headers["valid"]), len(walk.headers)][0]
        scan = _Scan(0, rng.choice((0, 100, 4096)), 0)

        def read_into(buffer: Bytes, position: int) -> int:
            buffer[:] = data[position : position + len(buffer)]
            return len(buffer)

        scan.read(read_into, len(data), self._arena.empty(len(data)))
        found = scan.result("", len(data))
        self.outcomes[f"recover: {found.stop.name}"] += 1
        assert found.batches_count <= bad
        if found.stop in (ScanStop.END, ScanStop.WRONG_CRC):
            assert found.batches_count == bad
            end = walk.next_position if bad == len(walk.headers) else walk.headers["position"][bad]
            assert found.valid_size == end

    def _audit(self, data: Bytes) -> None:
        """The pass of an audit: whatever it finds usual, a walk finds good."""
        arena = self._arena
        walk = walk_batches(data)
        count = len(walk.headers)
        offsets, positions, timestamps = (
            arena.holding(np.frombuffer(walk.headers[name].tobytes(), np.uint8)).view(np.int64)
            for name in ("last_offset", "position", "max_timestamp")
        )
        base_offset = max([0, *walk.headers["base_offset"][:1].tolist()])
        facts = arena.empty(auditing.FACTS.itemsize).view(auditing.FACTS)
        facts[0] = (-1, base_offset - 1, -1, -1, 0, 0, 0, -1, 0, 0, 0, 0, False, False)
        found = auditing.check(
            data,
            0,
            len(data),
            0,
            (base_offset, INT64_MAX, INT64_MAX, INT64_MAX),
            (offsets, positions, offsets, timestamps),
            facts,
            arena.empty(16).view(np.int64).reshape(1, 2),
            arena.empty(4 * count).view(np.uint32),
        )
        is_usual = found[2] != auditing.UNUSUAL
        self.outcomes[f"audit: {'usual' if is_usual else 'unusual'}"] += 1
        if is_usual:
            assert found == (count, walk.next_position, walk.stop.value)
            assert walk.headers["valid"].all()

    def _sections(self, case: Case) -> None:
        """The records before they were compressed, as if the section's bytes were all there is."""
        plain = self._arena.holding(case.plain)
        table = np.zeros(1, walking.BATCH)
        table["records_end"], table["magic"] = len(plain), case.magic
        if case.magic == 2:
            table["records_count"] = struct.unpack_from(">i", case.head, 57)[0]
            table["base_offset"] = struct.unpack_from(">q", case.head)[0]
        else:
            count, _, end = decoding.inner_messages(plain, 0, len(plain))
            assert end <= len(plain)
            assert count <= len(plain) // 26 + 1
            decoding.legacy_entry(plain, 0, len(plain))
        self._decode(plain, table, is_legacy=case.magic < 2)

    def _decode(self, data: Bytes, batches: NDArray[np.void], *, is_legacy: bool) -> None:
        decode = decoding.decode_legacy if is_legacy else decoding.decode
        rows = self._arena.empty(5 * decoding.RECORD.itemsize).view(decoding.RECORD)
        at, outcome = (0, 0, 0), decoding.MORE
        while outcome == decoding.MORE:
            mark = self._arena._used
            count, outcome, at = decode(data, batches, rows, at, 1 << 20, INT64_MIN, INT64_MAX)
            if count:
                self._gather(data, rows[:count])
            self._arena._used = mark
        self.outcomes[f"decode: {PROBLEMS.get(outcome, 'fine')}"] += 1

    def _gather(self, data: Bytes, rows: NDArray[np.void]) -> None:
        arena, count = self._arena, len(rows)
        key_bytes, value_bytes, headers_count, headers_bytes = decoding.sums(rows)
        for which, size in ((KEY, key_bytes), (VALUE, value_bytes)):
            ends = arena.empty(4 * (count + 1)).view(np.int32)
            gather(data, rows, which, ends, arena.empty(size), arena.empty(-(-count // 8)))
            assert ends[-1] == size
        gather_plain(
            data,
            rows,
            arena.empty(4 * (count + 1)).view(np.int32),
            arena.empty(key_bytes),
            arena.empty(4 * (count + 1)).view(np.int32),
            arena.empty(value_bytes),
            arena.empty(8 * count).view(np.int64),
            arena.empty(8 * count).view(np.int64),
        )
        steps = np.array([[lines.VALUE, 0, 0], [lines.KEY, 0, 0]], np.int64)
        ends = arena.empty(4 * (count + 1)).view(np.int32)
        out = arena.empty(key_bytes + value_bytes)
        assert lines.write_fields(data, rows, steps, arena.empty(0), ends, out) == len(out)
        gather_headers(
            data,
            rows,
            arena.empty(4 * (count + 1)).view(np.int32),
            arena.empty(-(-count // 8)),
            arena.empty(4 * (headers_count + 1)).view(np.int32),
            arena.empty(headers_bytes),
            arena.empty(4 * (headers_count + 1)).view(np.int32),
            arena.empty(headers_bytes),
            arena.empty(-(-headers_count // 8)),
        )
        hashes = arena.empty(16 * count).view(np.uint64).reshape(count, 2)
        hash_keys(data, rows, np.uint64(1), np.uint64(2), hashes)

    def _headers(self, data: Bytes, case: Case, rng: random.Random) -> None:
        """Functions that work in place, on memory that is guarded too."""
        copy = self._arena.holding(data)
        edge = rng.choice(INT64_EDGES)
        for position in (0, rng.randrange(len(data) + 1)):
            self._refused(lambda at=position: BatchHeader.unpack(data.data, at), "header")
            self._refused(lambda at=position: headers.set_base_offset(copy.data, edge, at), "set")
            self._refused(lambda at=position: headers.set_last_offset(copy.data, edge, at), "set")
            self._refused(lambda at=position: headers.set_partition_leader_epoch(copy.data, 7, at), "set")
            self._refused(
                lambda at=position: headers.set_max_timestamp(
                    copy.data, TimestampType.LOG_APPEND_TIME, edge, at
                ),
                "set",
            )
        section = data.data[61:]
        self._scratch.used = 0
        codec = rng.randrange(8)
        self._refused(
            lambda: decompress_into(codec, section, self._scratch, magic=case.magic, limit=LIMIT),
            "decompress",
        )

    def _against_naive(self, case: Case) -> None:
        """The plain twin and our reader agree on the records, or that something is wrong."""
        ours: list[Record] = []
        theirs: list[naive.Record] = []
        try:
            for batch in read_batches(case.data, limit=LIMIT):
                ours.extend(batch)
        except StratalogError as error:
            if "its last inner message" in str(error):
                return  # an inner offset so far below zero that Kafka's sum wraps round; we refuse it
            ours = []
        try:
            theirs = naive.decode(case.data, _decompress)
        except naive.NaiveError:
            theirs = []
        # If a register wraps around, the twin continues to count.
        if any(not INT64_MIN <= record.offset <= INT64_MAX for record in theirs):
            self.outcomes["naive: offsets beyond int64"] += 1
            return
        assert [_comparable(record) for record in ours] == [_as_ours(record) for record in theirs]
        self.outcomes["naive: records" if ours else "naive: none"] += 1
        for batch in read_batches(case.data, limit=LIMIT) if ours else ():
            stored = list(batch.records(stored_timestamps=True))
            if batch.facts.magic == 2 and stored:
                (again,) = read_batches(encode_batch(batch.header, stored))
                assert list(again.records(stored_timestamps=True)) == stored


_SHARED_FIELDS = [name for name in naive.Batch._fields if name != "valid"]
_TOPICS = sorted(INTERNAL_TOPICS)
# With these before it, a small batch is the third of three whose checksums are computed at once.
_TWO_SMALL = b"".join(build_batch([Record(offset, 0, None, b"small")]) for offset in range(2))


def _kind(error: StratalogError) -> str:
    """The class, and for a bad record which rule it breaks."""
    text = str(error)
    return next(
        (f"{type(error).__name__}, {why}" for why in PROBLEMS.values() if why in text), type(error).__name__
    )


def _each(items: Iterator[_T]) -> Iterator[_T]:
    """One by one, so that what came before an error is kept by `extend`."""
    yield from items


def _decompress(codec: int, data: bytes, magic: int) -> bytes:
    """The records; an error only where records are expected, as in Kafka."""
    try:
        return decompress(codec, data, magic=magic, limit=LIMIT)
    except StratalogError:
        return b""


def _as_ours(record: naive.Record) -> Record:
    pairs = tuple((key.decode("utf-8", "replace"), value) for key, value in record.headers)
    return _comparable(Record(record.offset, record.timestamp, record.key, record.value, pairs))


def _comparable(record: Record) -> Record:
    """Java and Python replace bytes that are not UTF-8 in a header's key by different rules."""
    pairs = tuple(("?" if "\ufffd" in key else key, value) for key, value in record.headers)
    return record._replace(headers=pairs)
