"""What the judge of killed writers knows of their topics: attempts, records and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Policy(NamedTuple):
    """The records that a topic removes by itself."""

    is_compacted: bool = False
    retention_size: int | None = None


class Found(NamedTuple):
    """One record in a log. A marker's identity is its kind, together with its producer.

    For a consumer, the producer is None.
    """

    offset: int
    identity: str
    key: str | None = None
    crc: int | None = None
    producer: int | None = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """A log as the next process found it; `committed` are the offsets that a read_committed reader gets."""

    start: int
    end: int
    stable: int
    records: Sequence[Found]
    committed: Sequence[int]


@dataclass(slots=True)
class Transaction:
    """A transaction: the end that was decided for it, and whether its marker was acknowledged."""

    topic: str
    producer: int
    decision: str | None = None
    is_ended: bool = False


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A batch that a writer tries to append; `records` are (identity, key, crc), `ends` is for a marker."""

    name: str
    topic: str
    producer: int
    sequence: int
    transaction: str | None
    size: int
    records: list[tuple[str, str | None, int | None]]
    ends: str | None = None
    first_offset: int | None = None


@dataclass(slots=True)
class Written:
    """One record of an attempt that is in the log. `may_go`: a newer one of its key was there for a while."""

    attempt: Attempt
    index: int
    may_go: bool = False

    @property
    def identity(self) -> str:
        return self.attempt.records[self.index][0]

    @property
    def key(self) -> str | None:
        return self.attempt.records[self.index][1]

    @property
    def crc(self) -> int | None:
        return self.attempt.records[self.index][2]

    @property
    def size(self) -> int:
        """Bytes of the batch, counted with its first record."""
        return 0 if self.index else self.attempt.size


@dataclass(slots=True)
class Topic:
    """What is known about one log."""

    policy: Policy
    written: dict[int, Written] = field(default_factory=dict)  # by offset: acknowledged, or found
    trying: dict[str, Attempt] = field(default_factory=dict)
    last: dict[int, Attempt] = field(default_factory=dict)  # of each producer
    gone: set[str] = field(default_factory=set)
    newest: dict[str | None, int] = field(default_factory=dict)  # offset of each key
    cut_off: dict[str, int] = field(default_factory=dict)  # in this life, and where it was
    start: int = 0  # as acknowledged
    highest_start: int = 0  # as it may be
    cutting: int | None = None
