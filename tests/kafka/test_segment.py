"""Kafka's own LogSegment and ours, given the same batches: the same files, the same answers.

The files are compared when they have been closed or rolled: until then Kafka's indexes are maps whose tails
it leaves as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stratalog.errors import IndexFullError
from stratalog.files.disk import Disk
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.segment.producers import TxnEvent, TxnEventKind
from stratalog.segment.scan import ScanStop, SegmentScan, scan_segment
from stratalog.segment.segment import LogSegment
from stratalog.segment.txn_index import AbortedTxn
from tests.kafka.conftest import had
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram
from tests.kafka.oracle import OracleError, RecordsOracle
from tests.segment.making import History, ManualClock, append, config_of, joined, records, reopened

HISTORIES = 300
LOGS_TO_RECOVER = 200
_FILES = (".log", ".index", ".timeindex", ".txnindex")


class SegmentOracle:
    """Kafka's LogSegment at the other end of a pipe."""

    def __init__(self, jars: KafkaJars) -> None:
        self._program = JavaProgram(jars, "SegmentOracle")

    def ask(self, step: str, **given: Any) -> Any:
        answer = json.loads(self._program.ask(f"{step} {json.dumps(given)}"))
        if "error" in answer:
            raise OracleError(answer["error"], answer["message"])
        return answer["value"]

    def close(self) -> None:
        self._program.close()


@pytest.fixture(scope="module")
def kafka_segment(kafka_jars: KafkaJars) -> Iterator[SegmentOracle]:
    oracle = had(lambda: SegmentOracle(kafka_jars))
    yield oracle
    oracle.close()


class Pair:
    """Kafka's segment and ours with the same base offset and settings, in separate folders."""

    def __init__(
        self, oracle: SegmentOracle, folder: Path, base_offset: int, *, interval: int, index_bytes: int
    ) -> None:
        self.kafka = oracle
        self.base_offset = base_offset
        self._kafka_folder, self._our_folder = folder / "kafka", folder / "ours"
        self._kafka_folder.mkdir(parents=True)
        self._our_folder.mkdir()
        self._settings = {"interval": interval, "indexBytes": index_bytes}
        self.ours = LogSegment.create(
            Disk(), self._our_folder, base_offset, config_of(interval, index_bytes), ManualClock()
        )
        self._open_kafka()

    def append(self, batches: list[bytes], largest: int) -> bool:
        """False if an index is full, which both must find."""
        try:
            self.kafka.ask("append", hex=joined(batches).hex(), largest=largest)
        except OracleError as error:
            if "to a full" not in str(error):
                raise
            with pytest.raises(IndexFullError):
                append(self.ours, *batches)
            return False
        append(self.ours, *batches)
        return True

    def reopen(self) -> None:
        self.kafka.ask("close")
        self.ours.close()
        self.compare_files()
        self._open_kafka()
        self.kafka.ask("resize", indexBytes=self._settings["indexBytes"])
        self.ours = reopened(self.ours)

    def compare_files(self) -> None:
        for suffix in _FILES:
            name = f"{self.base_offset:020d}{suffix}"
            theirs, ours = self._kafka_folder / name, self._our_folder / name
            # A look-up makes Kafka create an index that is not there, which is then empty; ours does not.
            assert _content(ours).hex() == _content(theirs).hex(), name

    def compare_look_ups(self, history: History) -> None:
        draw = history.random
        offset = draw.randrange(self.base_offset, history.next_offset + 3)
        position = draw.randrange(self.ours.size + 100)
        ours, kafka = self.ours, self.kafka

        found = ours.reader.translate_offset(offset)
        mine = None if found is None else [found.base_offset, found.position, found.size]
        assert mine == kafka.ask("translate", offset=offset)
        assert ours.reader.read_next_offset() == kafka.ask("next")
        assert [ours.reader.max_timestamp, ours.reader.offset_of_max_timestamp] == kafka.ask("max")
        assert ours.reader.fetch_upper_bound_offset(position, 50) == kafka.ask(
            "upper", position=position, size=50
        )
        self._compare_read(offset, draw.choice([0, 10, 200, 5000]), draw.random() < 0.5, found)
        for timestamp in (
            ours.reader.max_timestamp - draw.randrange(40),
            draw.randrange(5),
            ours.reader.max_timestamp + 1,
        ):
            at = ours.reader.find_offset_by_timestamp(timestamp, offset)
            theirs = kafka.ask("time", timestamp=timestamp, start=offset)
            assert (None if at is None else list(at)) == theirs
        first = ours.reader.rolling_based_timestamp()
        if first is not None and first >= 0:
            assert ours.waited_ms(5, 99) == kafka.ask("waited", now=5, timestamp=99)

    def _compare_read(self, offset: int, size: int, min_one: bool, found: Any) -> None:
        # Kafka fails on an end before the start, which a log never asks for.
        end = None if found is None or size == 10 else found.position + size // 2
        mine = self.ours.reader.read(offset, size, max_position=end, min_one_message=min_one)
        theirs = self.kafka.ask("read", offset=offset, max=size, maxPosition=end, minOne=min_one)
        assert theirs == (None if mine is None else list(mine))

    def _open_kafka(self) -> None:
        self.kafka.ask("open", dir=str(self._kafka_folder), base=self.base_offset, **self._settings)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


@pytest.mark.parametrize("block", range(10))
def test_a_random_history_gives_the_same_answers_and_the_same_files(
    kafka_segment: SegmentOracle, tmp_path: Path, block: int
) -> None:
    for seed in range(block * HISTORIES // 10, (block + 1) * HISTORIES // 10):
        _play(seed, kafka_segment, tmp_path / str(seed))


def _play(seed: int, oracle: SegmentOracle, folder: Path) -> None:
    base_offset = (0, 7, 2**33)[seed % 3]
    history = History(seed, base_offset)
    draw = history.random
    pair = Pair(
        oracle,
        folder,
        base_offset,
        interval=draw.choice([0, 100, 700, 4096]),
        index_bytes=draw.choice([50, 100, 1000]),
    )
    for _ in range(draw.randrange(2, 10)):
        action = draw.random()
        if action < 0.6:
            batches = history.set_of_batches()
            if not pair.append(batches, history.next_offset - 1):
                break
        elif action < 0.75 and history.next_offset > base_offset:
            offset = draw.randrange(base_offset, history.next_offset + 1)
            assert pair.ours.truncate_to(offset) == oracle.ask("truncate", offset=offset)
            history.next_offset = max(offset, pair.ours.reader.read_next_offset())
        elif action < 0.85:
            pair.reopen()
        pair.compare_look_ups(history)
    if draw.random() < 0.5:
        pair.ours.on_become_inactive()
        oracle.ask("inactive")
        pair.compare_files()
    else:
        pair.ours.flush()
        oracle.ask("flush")
    pair.ours.close()
    oracle.ask("close")
    pair.compare_files()


def test_messages_of_old_formats_are_indexed_and_found_alike(
    kafka_segment: SegmentOracle, oracle: RecordsOracle, tmp_path: Path
) -> None:
    for magic, codec in ((0, "none"), (0, "gzip"), (1, "none"), (1, "snappy"), (1, "lz4")):
        pair = Pair(kafka_segment, tmp_path / f"{magic}-{codec}", 0, interval=100, index_bytes=2000)
        history = History(magic, 0)
        for first in range(0, 60, 3):
            fields = [
                {"timestamp": 1000 + 10 * (first + i), "key": "00", "value": "ab" * 40, "offset": first + i}
                for i in range(3)
            ]
            message_set = oracle.build(fields, magic=magic, codec=codec, baseOffset=first)
            kafka_segment.ask("append", hex=message_set.hex(), largest=first + 2)
            append(pair.ours, message_set)
            history.next_offset = first + 3
            pair.compare_look_ups(history)
        pair.reopen()
        pair.compare_look_ups(history)


def test_the_worked_example_of_aborted_transactions_is_the_same_file(
    kafka_segment: SegmentOracle, tmp_path: Path
) -> None:
    pair = Pair(kafka_segment, tmp_path, 0, interval=4096, index_bytes=1000)
    for aborted in (AbortedTxn(1, 0, 29, 8), AbortedTxn(2, 8, 74, 36)):
        pair.ours.append_aborted(aborted)
        producer_id, first, last, stable = aborted[:4]
        kafka_segment.ask("abort", producerId=producer_id, first=first, last=last, stable=stable)

    for fetch, upper in ((0, 100), (30, 100), (0, 8), (0, 9), (75, 80), (10, 36), (10, 37)):
        found, is_complete = pair.ours.reader.collect_aborted(fetch, upper)
        theirs = kafka_segment.ask("aborted", **{"from": fetch, "upper": upper})
        assert {"complete": is_complete, "list": [list(txn[:4]) for txn in found]} == theirs
    pair.reopen()


def test_a_rename_before_anything_was_appended_makes_no_index(
    kafka_segment: SegmentOracle, tmp_path: Path
) -> None:
    pair = Pair(kafka_segment, tmp_path, 5, interval=10, index_bytes=1000)

    pair.ours.change_suffixes("", ".deleted")
    kafka_segment.ask("rename", **{"old": "", "new": ".deleted"})

    names = [sorted(path.name for path in (tmp_path / side).iterdir()) for side in ("kafka", "ours")]
    assert names[0] == names[1] == ["00000000000000000005.log.deleted"]


@pytest.mark.parametrize("block", range(10))
def test_a_scan_finds_what_kafka_recovers(kafka_segment: SegmentOracle, tmp_path: Path, block: int) -> None:
    stops = set()
    for seed in range(block * LOGS_TO_RECOVER // 10, (block + 1) * LOGS_TO_RECOVER // 10):
        stops.add(_recover(seed, kafka_segment, tmp_path / str(seed)))
    assert len(stops) > 1


def _recover(seed: int, oracle: SegmentOracle, folder: Path) -> ScanStop:
    base_offset = (0, 1000)[seed % 2]
    history = History(seed, base_offset, producers=4)
    interval = history.random.choice([0, 100, 700, 4096])
    batches = [history.batch() for _ in range(history.random.randrange(1, 60))]
    log = folder / f"{base_offset:020d}.log"
    folder.mkdir()
    log.write_bytes(_damaged(batches, history))
    scan = scan_segment(Disk(), log, base_offset, index_interval_bytes=interval)

    oracle.ask("open", dir=str(folder), base=base_offset, interval=interval, indexBytes=8000)
    answer = oracle.ask("recover")
    next_offset = oracle.ask("next")
    oracle.ask("close")

    assert scan.file_size - scan.valid_size == answer["truncated"], scan.reason
    assert scan.next_offset == next_offset
    assert scan.offset_index == log.with_suffix(".index").read_bytes()
    assert scan.time_index == log.with_suffix(".timeindex").read_bytes()
    assert [list(start) for start in scan.epoch_starts] == answer["epochs"]
    assert _producers(scan) == sorted(answer["producers"], key=lambda producer: int(producer["id"]))
    txn_index = log.with_suffix(".txnindex")
    assert _aborted(scan.transactions) == _content(txn_index)
    return scan.stop


def _damaged(batches: list[bytes], history: History) -> bytes:
    draw = history.random
    data = bytearray(joined(batches))
    kind = draw.randrange(6)
    if kind == 0:
        del data[draw.randrange(len(data)) :]
    elif kind == 1:
        start = sum(map(len, batches[: draw.randrange(len(batches))]))
        data[start + 30] ^= 1 << draw.randrange(8)  # under the checksum
    elif kind == 2:
        data += bytes(draw.randrange(1, 200))
    return bytes(data)


def _producers(scan: SegmentScan) -> list[dict[str, Any]]:
    """In Kafka's form, if nothing was known before this segment."""
    return [
        {
            "id": producer.producer_id,
            "epoch": producer.producer_epoch,
            "coordinatorEpoch": producer.coordinator_epoch,
            "timestamp": producer.last_timestamp,
            "txn": -1 if producer.txn_first_offset is None else producer.txn_first_offset,
            "batches": [list(batch) for batch in producer.batches],
        }
        for producer in sorted(scan.producers)
    ]


def _aborted(events: tuple[TxnEvent, ...]) -> bytes:
    """The .txnindex that the events amount to, when no transaction was open before this segment."""
    first_offsets: dict[int, int] = {}
    index = b""
    for event in events:
        if event.kind is TxnEventKind.STARTED:
            first_offsets[event.producer_id] = event.offset
        elif event.kind is not TxnEventKind.PLAIN and event.producer_id in first_offsets:
            first = first_offsets.pop(event.producer_id)
            stable = min(first_offsets.values(), default=event.offset + 1)
            if event.kind is TxnEventKind.ABORTED:
                index += AbortedTxn(event.producer_id, first, event.offset, stable).to_bytes()
    return index


def test_kafka_keeps_a_bad_marker_and_cuts_behind_it(kafka_segment: SegmentOracle, tmp_path: Path) -> None:
    options = BatchOptions(producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    bad = build_batch([Record(1, 5, b"\0", b"\0\0\0\0\0\0")], options)
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(records(0, "a") + bad + records(2, "b"))
    scan = scan_segment(Disk(), log, 0, index_interval_bytes=0)

    kafka_segment.ask("open", dir=str(tmp_path), base=0, interval=0, indexBytes=1000)
    truncated = kafka_segment.ask("recover")["truncated"]
    kafka_segment.ask("close")

    assert scan.stop is ScanStop.INVALID_MARKER
    assert truncated == scan.file_size - scan.valid_size == len(records(2, "b"))
    assert scan.offset_index == log.with_suffix(".index").read_bytes()
    assert scan.time_index == log.with_suffix(".timeindex").read_bytes()
