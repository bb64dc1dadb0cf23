"""Random histories of one log, the same for Kafka and for us: a seed decides settings, steps and batches.

A history uses Kafka's marks of the log after each step (`marks`), so that most offsets are meaningful there.
Most steps are those of a healthy cluster; some are what a broken client or a late follower would send, and
both sides or neither must refuse them. The replica changes its role on the way: as a leader it assigns
offsets, as a follower it accepts whole sets with their own offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from tests.kafka.log_oracle import Json, Step
from tests.kafka.making_sets import SetMaker

T0 = 1_700_000_000_000  # a clock of 2023: before every file's own time
HOUR_MS = 3_600_000


class History:
    """Steps for one log. `config` is the topic's; with `recompresses` the two sides write other bytes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.recompresses = seed % 6 == 5
        self.config = self._config()
        self.clock_ms = T0
        self.leads = self.random.random() < 0.6
        self.epoch = 0
        # An index that becomes full inside a set makes the append fail half-way on both sides, so sets have
        # one batch then.
        single = int(self.config.get("segment.index.bytes", 4096)) < 1000
        self.sets = SetMaker(self.random, self.config, single_batches=single, recompresses=self.recompresses)

    def steps(self, count: int, marks: Callable[[], Json]) -> Iterator[Step]:
        """Yields `count` steps; `marks` returns Kafka's present marks of the log."""
        yield from self._change_role(marks())
        for _ in range(count):
            yield from self._next(marks())

    def open(self, directory: str, marks: Json | None) -> Step:
        """Open the log as a new one, or again with the marks it was closed with."""
        start = marks["logStart"] if marks else 0
        point = marks["logEnd"] if marks else 0
        given = {"dir": directory, "config": self.config, "clean": True}
        return Step("open", given | {"logStart": start, "recoveryPoint": point})

    def _config(self) -> dict[str, str]:
        pick, chance = self.random.choice, self.random.random
        config = {"index.interval.bytes": pick(["0", "100", "300", "1000", "4096"])}
        if self.recompresses:
            # If sizes differ, the log would roll at different moments.
            config["compression.type"] = pick(["gzip", "snappy", "lz4", "zstd"])
            config["segment.index.bytes"] = "10240"
        else:
            config["internal.segment.bytes"] = pick(["1500", "4000", "12000", "1048576"])
            config["segment.index.bytes"] = pick(["48", "96", "200", "4096", "10485760"])
            if chance() < 0.15:
                config["compression.type"] = "uncompressed"
            if chance() < 0.15:
                config["max.message.bytes"] = "700"
            if chance() < 0.15:
                config["preallocate"] = "true"
        if chance() < 0.3:
            config["segment.ms"] = "10000"
        if chance() < 0.2:
            config["message.timestamp.type"] = "LogAppendTime"
        if chance() < 0.15:
            config["cleanup.policy"] = pick(["compact", "compact,delete"])
        if chance() < 0.2:
            config["flush.messages"] = pick(["1", "7"])
        if chance() < 0.2:
            config["message.timestamp.before.max.ms"] = "5000"
        return config

    def _next(self, marks: Json) -> Iterator[Step]:
        cut = 0 if self.recompresses else 1
        choices: list[tuple[int, Callable[[Json], Iterator[Step]]]] = [
            (60, self._append),
            (8, self._read),
            (5, self._find_time),
            (8, self._move_high_watermark),
            (6, self._pass_time),
            (5, self._in_the_background),
            (4, self._roll),
            (4, self._change_role),
            (3, self._delete_records),
            (4 * cut, self._truncate),
            (1 * cut, self._truncate_fully),
            (2 * cut, self._reopen),
        ]
        weights = [weight for weight, _ in choices]
        (chosen,) = self.random.choices([step for _, step in choices], weights)
        yield from chosen(marks)

    def _append(self, marks: Json) -> Iterator[Step]:
        if self.leads:
            yield from self.sets.for_leader(self.clock_ms, self.epoch)
        else:
            yield self.sets.for_follower(self.clock_ms, self.epoch, marks["logEnd"])

    def _read(self, marks: Json) -> Iterator[Step]:
        for isolation in ("LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED"):
            yield Step(
                "read",
                {
                    "offset": self._offset(marks),
                    "max": 1 << 20 if self.recompresses else self.random.choice([0, 1, 100, 1000, 1 << 20]),
                    "isolation": isolation,
                    "minOne": self.random.random() < 0.7,
                },
            )

    def _find_time(self, _marks: Json) -> Iterator[Step]:
        times = [-1, -2, -3, -4, -5, -6, 0, self.clock_ms - self.random.randrange(20_000), self.clock_ms]
        for timestamp in self.random.sample(times, 3):
            yield Step("offsetByTimestamp", {"timestamp": timestamp})

    def _move_high_watermark(self, marks: Json) -> Iterator[Step]:
        offset = self._offset(marks)
        verb = self.random.choice(["updateHighWatermark", "incrementHighWatermark"])
        yield Step(verb, {"offset": self.random.choice([offset, marks["logEnd"]])})
        if self.random.random() < 0.5:
            yield Step("snapshot", {})

    def _pass_time(self, _marks: Json) -> Iterator[Step]:
        self.clock_ms += self.random.choice([1, 100, 3000, 12_000, HOUR_MS, 25 * HOUR_MS])
        yield Step("setClock", {"ms": self.clock_ms})
        if self.random.random() < 0.3:
            yield Step("expireProducers", {})

    def _in_the_background(self, _marks: Json) -> Iterator[Step]:
        yield Step(self.random.choice(["runTasks", "runTasks", "flush"]), {})

    def _roll(self, _marks: Json) -> Iterator[Step]:
        yield Step("roll", {})

    def _change_role(self, marks: Json) -> Iterator[Step]:
        self.epoch += self.random.choice([0, 1, 1, 3])
        self.leads = not self.leads if self.random.random() < 0.5 else self.leads
        if self.leads:
            yield Step("assignEpoch", {"epoch": self.epoch, "offset": marks["logEnd"]})

    def _delete_records(self, marks: Json) -> Iterator[Step]:
        offset = self.random.choice([marks["highWatermark"], self._offset(marks)])
        yield Step("deleteRecords", {"offset": offset})

    def _truncate(self, marks: Json) -> Iterator[Step]:
        # Kafka's flush after a roll moves the recovery point past the end of a log that was cut meanwhile;
        # ours stays at the end. So nothing waits to be flushed when a history truncates.
        yield Step("runTasks", {})
        near = max(marks["logEnd"] - self.random.randrange(12), 0)
        offset = self.random.choice([near, near, self._offset(marks)])
        yield Step("truncateTo", {"offset": offset})
        # As the next fetch of a follower does; only then does Kafka compute the last stable offset again.
        yield Step("updateHighWatermark", {"offset": min(offset, marks["highWatermark"])})

    def _truncate_fully(self, marks: Json) -> Iterator[Step]:
        yield Step("runTasks", {})
        offset = marks["logEnd"] + self.random.choice([0, 50])
        yield Step("truncateFully", {"offset": offset, "logStart": None})

    def _reopen(self, marks: Json) -> Iterator[Step]:
        yield Step("reopen", {})
        if self.random.random() < 0.8:
            yield Step("updateHighWatermark", {"offset": marks["highWatermark"]})

    def _offset(self, marks: Json) -> int:
        """Some offset of the log, sometimes one just outside."""
        return max(0, self.random.randint(marks["logStart"] - 1, marks["logEnd"] + 1))
