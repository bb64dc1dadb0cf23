"""Our log with the steps of log_oracle.py: the same names, the same arguments, answers of the same form."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from itertools import count

from stratalog.config import LogConfig
from stratalog.errors import RecordError, StratalogError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log import loader
from stratalog.log.appender import AnySet
from stratalog.log.log import Log
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.reading import Isolation
from stratalog.log.scheduler import ScheduledTask
from tests.kafka.log_oracle import Json, Refusal, Step

# Where our name differs from Kafka's in more than Error for Exception.
KINDS = {
    "RecordValidationError": "InvalidRecordException",
    "UsageError": "IllegalArgumentException",
    "CorruptCompressionError": "InvalidRecordException",
}


class WhenTold:
    """A scheduler that runs due tasks on request."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._numbers = count()
        self._tasks: list[tuple[int, int, ScheduledTask]] = []

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:  # noqa: ARG002  (Scheduler's)
        heapq.heappush(self._tasks, (self._clock() + delay_ms, next(self._numbers), task))

    def run_due(self) -> None:
        while self._tasks and self._tasks[0][0] <= self._clock():
            heapq.heappop(self._tasks)[2]()


class OurLog:
    """One log of ours, and its clock."""

    def __init__(self) -> None:
        self._clock_ms = 0
        self._disk = Disk()
        self._scheduler = WhenTold(self._now)
        self._log: Log | None = None
        self._lifted = 0  # Kafka's recovery point after the start of the log was raised

    def do(self, step: Step) -> Json | Refusal:
        """Our log's answer to a step; our errors have Kafka's names."""
        try:
            answer = self._answer(step.name, step.arguments)
            if step.name in ("deleteRecords", "open"):
                self._lifted = self.log.log_start_offset
            self._lifted = min(self._lifted, self.log.log_end_offset if self._log else 0)
            return answer
        except StratalogError as error:
            name = type(error).__name__
            blamed: tuple[RecordError, ...] = getattr(error, "record_errors", ())
            kind = KINDS.get(name, name.replace("Error", "Exception"))
            return Refusal(kind, tuple(record.batch_index for record in blamed), str(error))

    def _answer(self, name: str, given: dict[str, Json]) -> Json:
        if name == "setClock":
            self._clock_ms = given["ms"]
            return None
        if name == "open":
            return self._open(given)
        log = self.log
        match name:
            case "close":
                self._scheduler.run_due()
                log.close()
            case "runTasks":
                self._scheduler.run_due()
            case "appendLeader":
                return self._append_leader(given)
            case "appendFollower":
                data = bytes.fromhex(given["hex"])
                return _appended(log.append_as_follower(data, leader_epoch=given["leaderEpoch"]))
            case "roll":
                return log.roll().base_offset
            case "flush":
                log.flush()
            case "truncateTo":
                return log.truncate_to(given["offset"])
            case "truncateFully":
                log.truncate_fully_and_start_at(given["offset"], given["logStart"])
            case "deleteRecords":
                return log.increment_log_start_offset(given["offset"])
            case "updateHighWatermark":
                return log.update_high_watermark(given["offset"])
            case "incrementHighWatermark":
                return log.increment_high_watermark(given["offset"])
            case "assignEpoch":
                log.assign_epoch_start_offset(given["epoch"], given["offset"])
            case "expireProducers":
                log.producers.remove_expired_producers(self._clock_ms)
            case "read":
                return self._read(given)
            case "offsetByTimestamp":
                found = log.fetch_offset_by_timestamp(given["timestamp"])
                return None if found is None else list(found)
            case "describe":
                return self._describe()
            case "snapshot":
                marks = log.offset_snapshot()
                return {
                    "logStart": marks.log_start_offset,
                    "lastStable": list(marks.last_stable_offset),
                    "highWatermark": list(marks.high_watermark),
                    "logEnd": list(marks.log_end_offset),
                }
            case _:
                raise AssertionError(f"no such step: {name}")
        return None

    @property
    def log(self) -> Log:
        assert self._log is not None, "no log is open"
        return self._log

    def _now(self) -> int:
        return self._clock_ms

    def _open(self, given: dict[str, Json]) -> None:
        self._scheduler = WhenTold(self._now)
        self._log = loader.load(
            disk=self._disk,
            clock=self._now,
            scheduler=self._scheduler,
            directory=given["dir"],
            topic_partition=TopicPartition("history", 0),
            config=LogConfig.of(given["config"]),
            log_start_offset=given["logStart"],
        )

    def _append_leader(self, given: dict[str, Json]) -> Json:
        return _appended(
            self.log.append_as_leader(
                bytes.fromhex(given["hex"]),
                leader_epoch=given["leaderEpoch"],
                origin=AppendOrigin[given["origin"]],
                transaction_version=given["transactionVersion"],
            )
        )

    def _read(self, given: dict[str, Json]) -> Json:
        found = self.log.read(
            given["offset"],
            given["max"],
            isolation=Isolation[given["isolation"]],
            min_one_message=given["minOne"],
        )
        answer = {
            "size": len(found.records),
            "offset": list(found.offset),
            "sha256": hashlib.sha256(found.records).hexdigest(),
            "firstEntryIncomplete": found.first_entry_incomplete,
        }
        if found.aborted_transactions is not None:
            answer["aborted"] = [list(transaction) for transaction in found.aborted_transactions]
        return answer

    def _describe(self) -> Json:
        log = self.log
        return {
            "logStart": log.log_start_offset,
            "lastStable": log.last_stable_offset,
            "highWatermark": log.high_watermark,
            "logEnd": log.log_end_offset,
            "recoveryPoint": max(log.recovery_point, self._lifted),
            "segments": [[segment.base_offset, segment.size] for segment in log.segments],
            "epochs": [[entry.epoch, entry.start_offset] for entry in log.epochs.entries],
            "producers": {
                str(entry.producer_id): _producer(entry) for entry in log.producers.producers.values()
            },
        }


def _appended(info: AnySet) -> Json:
    return {
        "firstOffset": info.first_offset,
        "lastOffset": info.last_offset,
        "maxTimestamp": info.max_timestamp,
    }


def _producer(entry: ProducerStateEntry) -> Json:
    return {
        "epoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "timestamp": entry.last_timestamp,
        "txn": -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        "batches": [list(batch) for batch in entry.batches],
    }
