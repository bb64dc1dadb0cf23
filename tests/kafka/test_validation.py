"""The same batches to Kafka's LogValidator and ProducerStateManager and to ours: hundreds of seeded cases.

What is refused is refused for the same kind of reason. What is taken in place has the same bytes afterwards;
what one of the two compressed anew is compared decoded, as codec libraries differ in their output.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stratalog.config import LogConfig
from stratalog.errors import (
    CorruptRecordError,
    InvalidBatchError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    RecordValidationError,
    StratalogError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from stratalog.files.disk import Disk
from stratalog.log.append import analyze
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.analysis import analyze_producers, apply_changes
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.snapshot import parse_snapshot
from stratalog.log.validation import ValidatedSet, validate_and_assign_offsets
from stratalog.records.batch import BatchHeader, set_base_offset, write_crc
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.reader import read_batches
from tests.kafka.conftest import had
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram
from tests.kafka.oracle import RecordsOracle
from tests.profile import examples

NOW = 1_700_000_000_000
HOUR = 3_600_000
GROUPS = 6
DAY = 24 * HOUR

# Kafka's exception, and what is raised here. The last two of the first table a client sees as an unknown
# server error: Kafka finds inner offsets of a compressed batch that do not count up, wants to write the batch
# anew, and trips over the keys that it has skipped; and its builder takes neither timestamps below -1 nor
# half a producer, which a batch that stays as it is may have.
VALIDATION_ERRORS = {
    "InvalidRecordException": InvalidRecordError,
    "InvalidTimestampException": InvalidTimestampError,
    "CorruptRecordException": CorruptRecordError,
    "UnsupportedOperationException": InvalidRecordError,
    "IllegalArgumentException": InvalidBatchError,
}
PRODUCER_ERRORS = {
    "InvalidProducerEpochException": InvalidProducerEpochError,
    "OutOfOrderSequenceException": OutOfOrderSequenceError,
    "InvalidTxnStateException": InvalidTxnStateError,
    "TransactionCoordinatorFencedException": TransactionCoordinatorFencedError,
    "IllegalArgumentException": UsageError,
}


class ValidationOracle:
    """java/ValidationOracle.java on the other end of a pipe; an answer with `error` was an exception."""

    def __init__(self, jars: KafkaJars) -> None:
        self._program = JavaProgram(jars, "ValidationOracle")

    def ask(self, question: str, **wanted: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._program.ask(f"{question} {json.dumps(wanted)}"))
        return answer

    def close(self) -> None:
        self._program.close()


@pytest.fixture(scope="module")
def validation(kafka_jars: KafkaJars) -> Iterator[ValidationOracle]:
    oracle = had(lambda: ValidationOracle(kafka_jars))
    yield oracle
    oracle.close()


class Case:
    """One set of batches and the topic and caller it meets."""

    def __init__(self, chance: random.Random, kafka: RecordsOracle) -> None:
        self.origin = chance.choice([AppendOrigin.CLIENT, AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
        self.codec = chance.choice(["producer", "producer", "none", "gzip", "snappy", "lz4", "zstd"])
        self.compacted = chance.random() < 0.25
        self.log_append_time = chance.random() < 0.3
        self.before_max = chance.choice([2**63 - 1, HOUR])
        self.after_max = chance.choice([HOUR, 0, 2**63 - 1])
        self.next_offset = chance.choice([0, 1, 77, 2**40])
        self.leader_epoch = chance.randrange(100)
        self.data = _legacy_set(chance, kafka) if chance.random() < 0.25 else _v2_set(chance)

    @property
    def config(self) -> LogConfig:
        return LogConfig(
            compression_type="uncompressed" if self.codec == "none" else self.codec,
            cleanup_policy=frozenset({"compact" if self.compacted else "delete"}),
            message_timestamp_type="LogAppendTime" if self.log_append_time else "CreateTime",
            message_timestamp_before_max_ms=self.before_max,
            message_timestamp_after_max_ms=self.after_max,
        )

    def ask(self, oracle: ValidationOracle) -> dict[str, Any]:
        return oracle.ask(
            "validate",
            hex=self.data.hex(),
            codec=self.codec,
            compacted=self.compacted,
            timestampType="LogAppendTime" if self.log_append_time else "CreateTime",
            beforeMaxMs=self.before_max,
            afterMaxMs=self.after_max,
            leaderEpoch=self.leader_epoch,
            origin=self.origin.name,
            nextOffset=self.next_offset,
            now=NOW,
        )

    def ours(self) -> ValidatedSet:
        info = analyze(
            self.data, origin=self.origin, max_message_bytes=1 << 20, leader_epoch=self.leader_epoch
        )
        return validate_and_assign_offsets(
            info,
            next_offset=self.next_offset,
            config=self.config,
            now_ms=NOW,
            leader_epoch=self.leader_epoch,
            origin=self.origin,
        )


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_set_is_taken_or_refused_as_by_kafka(
    validation: ValidationOracle, oracle: RecordsOracle, group: int
) -> None:
    outcomes: set[str] = set()
    for number in range(examples(6000, quick=300) // GROUPS):
        case = Case(random.Random(f"validation {group} {number}"), oracle)
        answer = case.ask(validation)
        where = f"group {group}, case {number}: {answer.get('error')} {answer.get('message')}"
        answer = _without_slips(answer, case)
        if "error" in answer:
            _assert_refused(case, answer, where)
            outcomes.add(answer["error"])
        else:
            ours = case.ours()
            _assert_same(ours, answer, case, where)
            outcomes.add("rebuilt" if ours.is_rebuilt else "in place")

    assert {"rebuilt", "in place", "InvalidRecordException"} <= outcomes


def _without_slips(answer: dict[str, Any], case: Case) -> dict[str, Any]:
    """Kafka's answer, except for two things that a coordinator may send and that are refused here.

    A batch without records that is written anew is nothing to Kafka, or a NullPointerException. A compressed
    control batch that gets another codec becomes one of ordinary records, markers included.
    """
    if answer.get("hex") == "" or answer.get("error") == "NullPointerException":
        return {"error": "IllegalArgumentException"}
    if answer.get("isRebuilt") and case.data[16] == 2 and BatchHeader.unpack(case.data).is_control:
        return {"error": "InvalidRecordException"}
    return answer


def _assert_refused(case: Case, answer: dict[str, Any], where: str) -> None:
    with pytest.raises(StratalogError) as caught:
        case.ours()
    assert isinstance(caught.value, VALIDATION_ERRORS[answer["error"]]), f"{where}: {caught.value!r}"
    if "recordErrors" in answer:
        assert isinstance(caught.value, RecordValidationError | InvalidTimestampError), where
        indexes = [error.batch_index for error in caught.value.record_errors]
        assert indexes == answer["recordErrors"], where


def _assert_same(ours: ValidatedSet, answer: dict[str, Any], case: Case, where: str) -> None:
    theirs = bytes.fromhex(answer["hex"])
    assert ours.is_rebuilt == answer["isRebuilt"], where
    assert ours.max_timestamp == answer["maxTimestamp"], where
    assert ours.last_offset + 1 == answer["nextOffset"], where
    assert ours.log_append_time == (answer["logAppendTime"] if case.log_append_time else -1), where
    if not ours.is_rebuilt or case.codec == "none":
        assert ours.data.tobytes() == theirs, where
    else:
        assert _described(ours.data.tobytes()) == _described(theirs), where
    (row,) = ours.batches
    (batch,) = read_batches(ours.data)
    assert row.item() == tuple(batch.facts), where


def _described(data: bytes) -> list[Any]:
    """Headers without the fields that depend on the codec's output, and records with stored timestamps."""
    return [
        (batch.header._replace(batch_length=0, crc=0), list(batch.records(stored_timestamps=True)))
        for batch in read_batches(data)
    ]


def _records(chance: random.Random, *, headers: bool) -> list[Record]:
    oddity = chance.random()
    records = []
    for offset in range(chance.choice([1, 1, 2, 3, 5, 40])):
        timestamp = NOW - chance.randrange(HOUR)
        if oddity < 0.1:
            timestamp = -1
        elif oddity < 0.4 and chance.random() < 0.4:
            timestamp = NOW + chance.choice([1, HOUR, HOUR + 1, 3 * HOUR, -HOUR - 1, -30 * DAY])
        key = None if chance.random() < 0.05 else chance.randbytes(chance.randrange(6))
        value = None if chance.random() < 0.1 else b"value" * chance.randrange(20)
        pairs: tuple[tuple[str, bytes | None], ...] = ()
        if headers and chance.random() < 0.3:
            pairs = (("h", chance.choice([None, b"", b"x"])),)
        records.append(Record(offset, timestamp, key, value, pairs))
    return records


def _v2_set(chance: random.Random) -> bytes:
    """Mostly one good batch; otherwise one with a wrong header, a marker, no batch, or two batches."""
    kind = chance.random()
    if kind < 0.05:
        return _marker(chance.randrange(3), epoch=0, coordinator_epoch=0, offset=0, commit=True)
    if kind < 0.07:
        return b""
    codec = chance.choice([Codec.NONE, Codec.NONE, *Codec])
    options = BatchOptions(codec=codec)
    if chance.random() < 0.3:
        transactional = chance.random() < 0.5
        options = BatchOptions(
            codec=codec, producer_id=5, producer_epoch=1, base_sequence=9, is_transactional=transactional
        )
    batch = bytearray(build_batch(_records(chance, headers=True), options))
    header = BatchHeader.unpack(batch)
    if kind < 0.3:
        delta = header.last_offset_delta
        change: dict[str, int] = chance.choice(
            [
                {"last_offset_delta": delta + 1},
                {"last_offset_delta": -1},
                {"records_count": header.records_count + 1},
                {"records_count": header.records_count - 1},
                {"records_count": header.records_count + 1, "last_offset_delta": delta + 1},
                {"records_count": 0},
                {"records_count": -3},
                {"attributes": header.attributes | 0x08},  # says LogAppendTime
                {"attributes": header.attributes | 0x08, "max_timestamp": -1},
                {"attributes": header.attributes | 0x10},
                {"attributes": header.attributes | 0x20},
                {"attributes": header.attributes | 0x40},
                {"producer_id": 7, "base_sequence": -1},
                {"max_timestamp": NOW + 99},
                {"base_timestamp": -5, "max_timestamp": -5},
                {"base_timestamp": NOW + 50 * DAY},
            ]
        )
        batch[:61] = header._replace(**change).pack()
        write_crc(batch, 0, len(batch))
    return bytes(batch) * (2 if kind > 0.97 else 1)


def _legacy_set(chance: random.Random, kafka: RecordsOracle) -> bytes:
    magic = chance.randrange(2)
    codec = chance.choice(["none", "none", "gzip", "snappy", "lz4"])
    records = [
        {
            "timestamp": record.timestamp,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
        }
        for record in _records(chance, headers=False)
    ]
    options: dict[str, Any] = {}
    if magic == 1 and chance.random() < 0.15:
        options = {"timestampType": "LogAppendTime", "logAppendTime": NOW - 5}
    data = kafka.build(records, magic=magic, codec=codec, **options)
    if chance.random() < 0.1:
        other = 1 - magic
        data += kafka.build([{"timestamp": NOW, "key": "6b", "value": "76"}], magic=other, baseOffset=99)
    return data


def _marker(producer_id: int, *, epoch: int, coordinator_epoch: int, offset: int, commit: bool) -> bytes:
    marker = EndTxnMarker(ControlType.COMMIT if commit else ControlType.ABORT, coordinator_epoch)
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=epoch, is_transactional=True, is_control=True
    )
    timestamp = NOW - 1000
    return build_batch([Record(offset, timestamp, marker.key_bytes(), marker.value_bytes())], options)


class History:
    """Steps of a partition's producers, taken by Kafka and by us side by side."""

    def __init__(self, chance: random.Random, oracle: ValidationOracle, folder: Path) -> None:
        self._chance = chance
        self._oracle = oracle
        self.theirs_folder, self.ours_folder = folder / "theirs", folder / "ours"
        self.theirs_folder.mkdir(parents=True)
        self.ours_folder.mkdir()
        oracle.ask("producers", directory=str(self.theirs_folder), now=NOW, producerIdExpirationMs=HOUR)
        self.state = ProducerStateManager(
            Disk(), self.ours_folder, clock=lambda: NOW, producer_id_expiration_ms=HOUR
        )
        self.log_start = 0

    def step(self) -> str:
        """One random step, and a word for its result."""
        if self._chance.random() < 0.7:
            return self._append()
        end = self.state.map_end_offset
        offset = self._chance.randint(self.log_start, end)
        what = self._chance.choice(
            ["snapshot", "highWatermark", "logStart", "truncate", "truncateFully", "deleteBefore", "expire"]
        )
        now = NOW + self._chance.choice([0, HOUR // 2, 2 * HOUR])
        theirs = self._oracle.ask("do", what=what, offset=offset, start=self.log_start, now=now)
        self._act(what, offset, now)
        if what == "logStart":
            self.log_start = offset
        self.compare(theirs, what)
        return what

    def _act(self, what: str, offset: int, now: int) -> None:
        match what:
            case "snapshot":
                self.state.take_snapshot()
            case "highWatermark":
                self.state.on_high_watermark_updated(offset)
            case "logStart":
                self.state.on_log_start_offset_incremented(offset)
            case "truncate":
                self.state.truncate_and_reload(self.log_start, offset, now)
            case "truncateFully":
                self.state.truncate_fully_and_start_at(offset)
            case "deleteBefore":
                self.state.delete_snapshots_before(offset)
            case "expire":
                self.state.remove_expired_producers(now)

    def _append(self) -> str:
        origin = self._chance.choice(
            [AppendOrigin.CLIENT, AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION]
        )
        replicated = origin is AppendOrigin.REPLICATION
        version = -1 if replicated else self._chance.choice([0, 0, 1, 2])
        count = self._chance.choice([1, 3, 12]) if replicated else 1
        data, offset = b"", self.state.map_end_offset
        for _ in range(count):
            batch = self._batch(offset, origin)
            data += batch
            offset = BatchHeader.unpack(batch).last_offset + 1
        theirs = self._oracle.ask("append", hex=data.hex(), origin=origin.name, transactionVersion=version)
        info = analyze(data, origin=AppendOrigin.REPLICATION, max_message_bytes=None, leader_epoch=2**31 - 1)
        if "error" in theirs:
            with pytest.raises(StratalogError) as caught:
                analyze_producers(
                    self.state, info.data, info.batches, origin=origin, transaction_version=version
                )
            assert isinstance(caught.value, PRODUCER_ERRORS[theirs["error"]]), (theirs, caught.value)
            return str(theirs["error"])
        changes = analyze_producers(
            self.state, info.data, info.batches, origin=origin, transaction_version=version
        )
        assert (changes.duplicate is not None) == theirs.get("isDuplicate", False)
        if changes.duplicate is not None:
            return "duplicate"
        apply_changes(self.state, changes)
        ended = []
        for completed in changes.completed:
            ended.append([*completed, self.state.last_stable_offset(completed)])
            self.state.complete_txn(completed)
        self.state.update_map_end_offset(info.last_offset + 1)
        assert ended == theirs["completed"]
        self.compare(theirs, "append")
        return "appended"

    def _batch(self, offset: int, origin: AppendOrigin) -> bytes:
        chance = self._chance
        producer_id = chance.randrange(1, 4)
        entry = self.state.last_entry(producer_id)
        epoch = max(0, 0 if entry is None else entry.producer_epoch) + chance.choice([0] * 8 + [1, -1])
        epoch = max(epoch, 0)
        if chance.random() < 0.25 and origin is not AppendOrigin.CLIENT:
            coordinator_epoch = chance.choice([0, 1, 2])
            marker_epoch = epoch + chance.randrange(2)
            return _marker(
                producer_id,
                epoch=marker_epoch,
                coordinator_epoch=coordinator_epoch,
                offset=offset,
                commit=chance.random() < 0.5,
            )
        count = chance.choice([1, 1, 2, 7])
        last = -1 if entry is None or entry.producer_epoch != epoch else entry.last_sequence
        sequence = (last + 1 + chance.choice([0] * 12 + [1, 5])) & (2**31 - 1)
        if entry is not None and entry.batches and chance.random() < 0.15:
            known = chance.choice(entry.batches)
            sequence, count = known.first_sequence, known.offset_delta + 1
        if entry is None and chance.random() < 0.1:
            sequence = 2**31 - 1 - chance.randrange(3)
        is_open = entry is not None and entry.current_txn_first_offset is not None
        options = BatchOptions(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_open if chance.random() < 0.9 else not is_open,
        )
        records = [Record(i, NOW - chance.randrange(HOUR), b"k", b"v") for i in range(count)]
        batch = bytearray(build_batch(records, options))
        set_base_offset(batch, offset)
        return bytes(batch)

    def compare(self, theirs: dict[str, Any], what: str) -> None:
        unstable = self.state.first_unstable_offset
        undecided = self.state.first_undecided_offset
        latest = self.state.snapshots.latest
        ours = {
            "producers": [_fields(entry) for _, entry in sorted(self.state.producers.items())],
            "firstUnstable": -1 if unstable is None else unstable.offset,
            "firstUndecided": -1 if undecided is None else undecided,
            "mapEnd": self.state.map_end_offset,
            "isEmpty": self.state.is_empty,
            "latestSnapshot": -1 if latest is None else latest,
        }
        assert ours == {name: theirs[name] for name in ours}, what

    def snapshots(self, folder: Path) -> dict[str, list[Any]]:
        return {
            path.name: sorted(map(_fields, parse_snapshot(path.read_bytes()))) for path in folder.iterdir()
        }


def _fields(entry: Any) -> list[Any]:
    first = entry.current_txn_first_offset
    return [
        entry.producer_id,
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        -1 if first is None else first,
        [list(batch) for batch in entry.batches],
    ]


@pytest.mark.parametrize("group", range(GROUPS))
def test_producer_state_goes_as_in_kafka(validation: ValidationOracle, tmp_path: Path, group: int) -> None:
    seen: set[str] = set()
    for number in range(examples(600, quick=30) // GROUPS):
        chance = random.Random(f"producers {group} {number}")
        history = History(chance, validation, tmp_path / str(number))
        for _ in range(60):
            seen.add(history.step())
        assert history.snapshots(history.ours_folder) == history.snapshots(history.theirs_folder)

    assert {"appended", "duplicate", "truncate", "OutOfOrderSequenceException"} <= seen
    assert {"InvalidTxnStateException", "InvalidProducerEpochException"} <= seen


def test_kafka_loads_our_snapshots(validation: ValidationOracle, tmp_path: Path) -> None:
    state = ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW)
    batch = build_batch(
        [Record(0, NOW, b"k", b"v")],
        BatchOptions(producer_id=9, producer_epoch=3, base_sequence=4, is_transactional=True),
    )
    info = analyze(batch, origin=AppendOrigin.REPLICATION, max_message_bytes=None, leader_epoch=0)
    changes = analyze_producers(state, info.data, info.batches, origin=AppendOrigin.REPLICATION)
    apply_changes(state, changes)
    state.update_map_end_offset(1)
    state.take_snapshot()

    validation.ask("producers", directory=str(tmp_path), now=NOW)
    loaded = validation.ask("do", what="truncate", start=0, offset=2, now=NOW)

    assert loaded["producers"] == [[9, 3, -1, NOW, 0, [[4, 0, 0, NOW]]]]
    assert loaded["firstUnstable"] == 0
