"""Sets of batches for histories.py: what producers, coordinators and leaders send, or never should.

It keeps its own state of each producer (epoch, next sequence, open transaction). A truncation of the log
makes that state wrong, as for real producers, which are then refused or start a new epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from stratalog.records.batch import BatchHeader
from stratalog.records.build import BatchOptions, Record, build_batch, encode_batch
from stratalog.records.compression import Codec, compress
from stratalog.records.control import ControlType, EndTxnMarker
from tests import naive
from tests.kafka.log_oracle import Step

NO_TRANSACTION_VERSION = -1
TOO_LATE_MS = 2 * 3_600_000


@dataclass(slots=True)
class Producer:
    """A client as it sees itself."""

    producer_id: int
    is_transactional: bool
    epoch: int = 0
    sequence: int = 0
    in_transaction: bool = False
    coordinator_epoch: int = 5
    sent: list[bytes] = field(default_factory=list)


class SetMaker:
    """Makes the sets of one history; `single_batches` keeps those of a follower to one batch each."""

    def __init__(
        self, random: Random, config: dict[str, str], *, single_batches: bool, recompresses: bool
    ) -> None:
        self._random = random
        self._needs_keys = "compact" in config.get("cleanup.policy", "")
        self._single = single_batches
        self._recompresses = recompresses
        self._producers = [Producer(1000 + i, is_transactional=i % 2 == 1) for i in range(4)]

    def for_leader(self, now_ms: int, epoch: int) -> Iterator[Step]:
        """One append, or a few that belong together."""
        chosen = self._random.random()
        producer = self._random.choice(self._producers)
        if chosen < 0.3:
            yield self._leader(self._batch(now_ms), epoch)
        elif chosen < 0.65:
            yield self._leader(self._produced(producer, now_ms), epoch)
        elif chosen < 0.75 and producer.is_transactional:
            yield self._marker_step(producer, now_ms, epoch)
        elif chosen < 0.82 and producer.sent:
            yield self._leader(self._random.choice(producer.sent[-6:]), epoch)
        elif chosen < 0.85:
            yield self._leader(self._legacy(now_ms, compressed=self._recompresses), epoch)
        else:
            yield self._flawed(producer, now_ms, epoch)

    def for_follower(self, now_ms: int, epoch: int, log_end: int) -> Step:
        """A set as a leader would send it from the log's end on, with gaps from compaction."""
        pieces: list[bytes] = []
        offset = log_end + self._random.choice([0, 0, 0, 3])
        if self._random.random() < 0.03:
            offset = max(0, log_end - 2)  # what is there already
        count = 1 if self._single else self._random.choice([1, 1, 2, 5, 9])
        batch_epoch = max(0, epoch - self._random.choice([0, 0, 0, 1]))
        for _ in range(count):
            data, offset = self._replicated(now_ms, batch_epoch, offset)
            pieces.append(data)
            offset += self._random.choice([0, 0, 0, 2, 40])
            batch_epoch = min(epoch, batch_epoch + self._random.choice([0, 0, 0, 1]))
        return Step("appendFollower", {"hex": self._damaged_set(pieces).hex(), "leaderEpoch": epoch})

    def _damaged_set(self, pieces: list[bytes]) -> bytes:
        whole = b"".join(pieces)
        chosen = self._random.random()
        if chosen < 0.03:
            return whole[: -self._random.randrange(1, len(pieces[-1]))]  # cut off
        if chosen < 0.05:
            return whole + pieces[0]  # offsets that go back
        if chosen < 0.07:
            return whole[:-1] + bytes([whole[-1] ^ 1])  # a wrong CRC
        if chosen < 0.09 and pieces[-1][16] == 2:
            last = bytearray(pieces[-1])
            last[12:16] = (2**30).to_bytes(4, "big")  # of a leader that is not known yet
            return b"".join(pieces[:-1]) + bytes(last)
        return whole

    def _replicated(self, now_ms: int, epoch: int, offset: int) -> tuple[bytes, int]:
        """(a batch of the leader's log from this offset on, the offset after it)."""
        chosen = self._random.random()
        producer = self._random.choice(self._producers)
        options = BatchOptions(codec=self._codec(), partition_leader_epoch=epoch)
        records = self._records(now_ms, offset, gaps=self._random.random() < 0.3)
        if chosen < 0.05:
            return self._legacy(now_ms, compressed=False, offset=offset, count=1), offset + 1
        if chosen < 0.08:
            header = BatchHeader.unpack(build_batch(records, BatchOptions(partition_leader_epoch=epoch)))
            return encode_batch(header, []), records[-1].offset + 1
        if chosen < 0.2 and producer.is_transactional:
            return self._marker(producer, now_ms, offset=offset, leader_epoch=epoch), offset + 1
        if chosen < 0.6:
            options = self._options(producer, epoch)
            producer.sequence += records[-1].offset - offset + 1
        elif chosen < 0.65:
            options = BatchOptions(log_append_time=now_ms, partition_leader_epoch=epoch)
        return build_batch(records, options), records[-1].offset + 1

    def _produced(self, producer: Producer, now_ms: int) -> bytes:
        """The next batch of an idempotent producer, which may have started again."""
        if self._random.random() < 0.05:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        records = self._records(now_ms)
        data = build_batch(records, self._options(producer, -1))
        producer.sequence += len(records)
        producer.sent.append(data)
        return data

    def _options(self, producer: Producer, leader_epoch: int) -> BatchOptions:
        producer.in_transaction = producer.in_transaction or producer.is_transactional
        return BatchOptions(
            codec=self._codec(),
            partition_leader_epoch=leader_epoch,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=producer.is_transactional,
        )

    def _marker_step(self, producer: Producer, now_ms: int, epoch: int) -> Step:
        """A coordinator ends a transaction, by the old rule or by the rule of transactions v2."""
        version = self._random.choice([0, 0, 1, 2, 2])
        if version == 2 and self._random.random() < 0.9:
            producer.epoch, producer.sequence = producer.epoch + 1, 0
        data = self._marker(producer, now_ms, offset=0, leader_epoch=-1)
        return self._leader(data, epoch, origin="COORDINATOR", version=version)

    def _marker(self, producer: Producer, now_ms: int, *, offset: int, leader_epoch: int) -> bytes:
        producer.in_transaction = False
        producer.coordinator_epoch += self._random.choice([0, 0, 0, 1])
        kind = self._random.choice([ControlType.COMMIT, ControlType.ABORT])
        marker = EndTxnMarker(kind, producer.coordinator_epoch)
        options = BatchOptions(
            partition_leader_epoch=leader_epoch,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            is_transactional=True,
            is_control=True,
        )
        return build_batch([Record(offset, now_ms, marker.key_bytes(), marker.value_bytes())], options)

    def _flawed(self, producer: Producer, now_ms: int, epoch: int) -> Step:
        """A set that a leader refuses, at least from some senders."""
        batch = self._batch(now_ms)
        match self._random.randrange(12):
            case 0:
                producer.sequence += 5
                return self._leader(self._produced(producer, now_ms), epoch)
            case 1:
                producer.epoch = max(0, producer.epoch - 1)
                return self._leader(self._produced(producer, now_ms), epoch)
            case 2:
                outside = BatchOptions(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    base_sequence=producer.sequence,
                )
                return self._leader(build_batch(self._records(now_ms), outside), epoch)
            case 3:
                return self._leader(batch[:-1] + bytes([batch[-1] ^ 1]), epoch)
            case 4:
                return self._leader(batch[: self._random.randrange(len(batch))], epoch)
            case 5:
                return self._leader(build_batch(self._records(now_ms, 5)), epoch)
            case 6:
                return self._leader(self._batch(now_ms) + batch, epoch)
            case 7:
                return self._leader(self._batch(now_ms + TOO_LATE_MS), epoch)
            case 8:
                return self._leader(build_batch([Record(0, now_ms, None, b"no key")]), epoch)
            case 9:
                large = [Record(i, now_ms, b"k", bytes(800)) for i in range(2)]
                return self._leader(build_batch(large), epoch)
            case 10:
                marker = self._marker(producer, now_ms, offset=0, leader_epoch=-1)
                return self._leader(marker, epoch, origin=self._random.choice(["CLIENT", "COORDINATOR"]))
            case _:
                producer = self._random.choice([p for p in self._producers if p.is_transactional])
                producer.coordinator_epoch -= 3  # a coordinator that was replaced
                step = self._marker_step(producer, now_ms, epoch)
                producer.coordinator_epoch += 3
                return step

    def _leader(
        self, data: bytes, epoch: int, *, origin: str = "CLIENT", version: int = NO_TRANSACTION_VERSION
    ) -> Step:
        given = {"hex": data.hex(), "leaderEpoch": epoch, "origin": origin, "transactionVersion": version}
        return Step("appendLeader", given)

    def _batch(self, now_ms: int) -> bytes:
        return build_batch(self._records(now_ms), BatchOptions(codec=self._codec()))

    def _legacy(self, now_ms: int, *, compressed: bool, offset: int = 0, count: int = 0) -> bytes:
        """Messages of format 0 or 1; each is a separate entry, unless compressed."""
        magic = self._random.choice([0, 1])
        records = self._records(now_ms, offset)[: count or None]
        plain = [naive.Record(r.offset, r.timestamp, r.key, r.value) for r in records]
        whole = b"".join(naive.encode_message(record, magic=magic) for record in plain)
        if not compressed:
            return whole
        outer = naive.Record(len(plain) - 1, now_ms, None, compress(Codec.GZIP, whole, magic=magic))
        return naive.encode_message(outer, magic=magic, attributes=Codec.GZIP)

    def _records(self, now_ms: int, offset: int = 0, *, gaps: bool = False) -> list[Record]:
        records = []
        for _ in range(self._random.choice([1, 1, 2, 3, 8])):
            records.append(self._record(now_ms, offset))
            offset += self._random.choice([1, 2, 9]) if gaps else 1
        return records

    def _record(self, now_ms: int, offset: int) -> Record:
        timestamp = now_ms + self._random.randrange(-2000, 500) if self._random.random() < 0.95 else -1
        size = self._random.choice([0, 5, 5, 60, 200])
        key: bytes | None = b"key %d" % self._random.randrange(50)
        if not self._needs_keys and self._random.random() < 0.2:
            key = self._random.choice([None, b""])
        value = None if self._random.random() < 0.05 else b"v" * size
        headers = (("h", b"x"), ("n", None)) if self._random.random() < 0.1 else ()
        return Record(offset, timestamp, key, value, headers)

    def _codec(self) -> Codec:
        codec: Codec = self._random.choice([Codec.NONE, Codec.NONE, *Codec])
        return codec
