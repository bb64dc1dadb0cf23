"""Our log against Kafka's UnifiedLog: the same steps at the same clock, and then the same files.

Histories (histories.py) go to both sides. After every step results, kinds of refusal, marks, segments, leader
epochs and producers are compared, and after every clean close the directories, byte for byte. Kafka keeps
producers in a hash map, so that the entries of a snapshot are compared in any order. Where a topic's
compression.type made both sides compress anew, each with its own library, records are compared decoded, and
our indexes with those that Kafka's LogSegment.recover builds from our .log.

All this is Kafka 4.3.1's behaviour. Releases before 3.9.1, and 4.0.0, have one index entry for each set in
place of each batch and do not skip a follower's batches of a later epoch; releases before 4.0 do not move a
high watermark to the beginning of a batch.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import profile
from tests.kafka.directories import compare_file, compare_files, names_in
from tests.kafka.histories import History
from tests.kafka.log_oracle import Json, LogOracle, Refusal, Step
from tests.kafka.oracle import RecordsOracle
from tests.kafka.our_log import OurLog

HISTORIES = 600
STEPS = 50
LARGEST_TIMESTAMP = Step("offsetByTimestamp", {"timestamp": -3})
# What differs if each side compressed again: bytes, and positions in them.
OF_BYTES = {"size", "sha256"}


@pytest.mark.parametrize("seed", range(profile.examples(HISTORIES)))
def test_a_history_leaves_kafkas_results_marks_and_files(
    log_oracle: LogOracle, oracle: RecordsOracle, tmp_path: Path, seed: int
) -> None:
    history = History(seed)
    both = BothSides(log_oracle, tmp_path, history)
    both.open()

    for step in history.steps(STEPS, both.marks):
        both.do(step)
    both.do(Step("close", {}))

    if history.recompresses:
        compare_decoded(log_oracle, oracle, both)
    else:
        compare_files(both.theirs, both.ours)


class BothSides:
    """Kafka's log and ours, each in its own directory, taken through the same steps."""

    def __init__(self, kafka: LogOracle, work: Path, history: History) -> None:
        self.kafka, self.we = kafka, OurLog()
        self.theirs, self.ours = work / "kafka" / "history-0", work / "ours" / "history-0"
        self.history = history
        self.done: list[str] = []
        self.log_start_offset = 0  # when it was last opened
        for directory in (self.theirs, self.ours):
            directory.mkdir(parents=True)

    def marks(self) -> Json:
        """How the log is now, by Kafka."""
        return self.kafka.ask("describe")

    def open(self, marks: Json | None = None) -> None:
        for side, directory in ((self.kafka, self.theirs), (self.we, self.ours)):
            side.do(Step("setClock", {"ms": self.history.clock_ms}))
            answer = side.do(self.history.open(str(directory), marks))
            assert answer is None, answer
        theirs, ours = self.kafka.do(DESCRIBE), self.we.do(DESCRIBE)
        self.log_start_offset = theirs["logStart"]
        self._compare("open", theirs, ours)

    def do(self, step: Step) -> None:
        """One step on both sides; what they answer and how they are afterwards is the same."""
        self.done.append(str(step))
        if step.name == "reopen":
            marks = self.marks()
            self.do(Step("close", {}))
            compare_files(self.theirs, self.ours)
            self.open(marks)
            return
        self._compare("answers", as_we_would(step, self.kafka.do(step)), self.we.do(step))
        theirs, ours = self.kafka.do(DESCRIBE), self.we.do(DESCRIBE)
        if step.name == "truncateTo":
            # Kafka's is of before the truncation until the high watermark is set again, by the next step.
            ours["lastStable"] = theirs["lastStable"]
        if theirs["logStart"] != self.log_start_offset:
            # Kafka raises its recovery point with the start, ours says what is on the device.
            ours["recoveryPoint"] = theirs["recoveryPoint"]
        self._compare("state", theirs, ours)

    def _compare(self, what: str, theirs: Json | Refusal, ours: Json | Refusal) -> None:
        if self.history.recompresses:
            theirs, ours = without_places(theirs), without_places(ours)
        if isinstance(theirs, dict) and isinstance(ours, dict):
            theirs, ours = (
                {k: v for k, v in a.items() if v != b.get(k)} for a, b in ((theirs, ours), (ours, theirs))
            )
        last = "\n".join(self.done[-8:])
        assert ours == theirs, f"{what} after\n{last}\n{self.history.config}\n{theirs}\n{ours}"


DESCRIBE = Step("describe", {})


def as_we_would(step: Step, answer: Json | Refusal) -> Json | Refusal:
    """Kafka's answer, except for two deliberate differences."""
    if step.name == "read" and step.arguments["isolation"] == "TXN_COMMITTED" and isinstance(answer, dict):
        # If all records after the offset are gone, Kafka leaves out the list; otherwise it is empty.
        return {"aborted": [], **answer}
    if step == LARGEST_TIMESTAMP and isinstance(answer, list) and answer[0] == -1:
        return None  # no record has a timestamp: Kafka gives the first one, at time -1
    return answer


def without_places(answer: Json) -> Json:
    """The answer without sizes and byte positions."""
    if not isinstance(answer, dict):
        return answer
    kept = {key: value for key, value in answer.items() if key not in OF_BYTES}
    for key in ("offset", "lastStable", "highWatermark", "logEnd"):
        if isinstance(kept.get(key), list):
            kept[key] = kept[key][:2]
    if "segments" in kept:
        kept["segments"] = [base for base, _ in kept["segments"]]
    return kept


def compare_decoded(log_oracle: LogOracle, oracle: RecordsOracle, both: BothSides) -> None:
    """The batches of each segment as Kafka decodes them, and our indexes as Kafka recovers them."""
    assert names_in(both.ours) == names_in(both.theirs)
    recovered = both.ours.parent / "recovered-0"
    recovered.mkdir()
    for log in sorted(both.ours.glob("*.log")):
        shutil.copy(log, recovered)
        assert batches_of(oracle, log) == batches_of(oracle, both.theirs / log.name), log.name
    log_oracle.ask("recoverIndexes", dir=str(recovered), config=both.history.config)
    for name in names_in(both.theirs):
        suffix = Path(name).suffix
        if suffix in (".index", ".timeindex"):
            assert (both.ours / name).read_bytes() == (recovered / name).read_bytes(), name
        elif suffix != ".log":
            # No byte position is in these. (Of a .txnindex, Kafka's recovery would write another last stable
            # offset where one set held a marker and the begin of a transaction behind it.)
            compare_file(both.theirs / name, both.ours / name)


def batches_of(oracle: RecordsOracle, log: Path) -> list[Json]:
    batches = oracle.decode(log.read_bytes())
    for batch in batches:
        for field in ("position", "size", "crc"):
            del batch[field]
    return batches
