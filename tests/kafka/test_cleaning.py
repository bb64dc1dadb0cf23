"""Our cleaner against Kafka's: the same dirty logs, the same clock and bounds, and then the same files.

Where nothing was compressed anew all files are equal byte for byte. Where a batch was, each side has used its
own library: batches are compared as Kafka decodes them, and our indexes with those that Kafka's
`LogSegment.recover` builds from our .log. This is the cleaner of Kafka 4.3.1.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.log.cleaning import CleanResult
from tests import profile
from tests.kafka.cleaning import T0, CleanerOracle, DirtyHistory, OurCleaner
from tests.kafka.conftest import had
from tests.kafka.directories import compare_file, compare_files, names_in
from tests.kafka.jars import KafkaJars
from tests.kafka.log_oracle import Json, LogOracle
from tests.kafka.oracle import RecordsOracle
from tests.log.cleaning.small_pieces import Attempts, SmallPieces

# In history 9 a transaction of the first segment stays open: nothing of it is ever cleaned.
HISTORIES = [seed for seed in range(41) if seed != 9]
# Most histories have transactions: their dirty parts are read forwards. These are read backwards.
PLAIN_HISTORIES = range(100, 112)
ROUNDS = 4
BATCHES = 50


@pytest.fixture(scope="module")
def cleaner(kafka_jars: KafkaJars) -> Iterator[CleanerOracle]:
    oracle = had(lambda: CleanerOracle(kafka_jars))
    yield oracle
    oracle.program.close()


def test_there_are_forty_histories() -> None:
    assert len(HISTORIES) == 40


@pytest.mark.parametrize(
    "seed",
    [
        *HISTORIES[: {profile.QUICK: 6, profile.CI: 12}.get(profile.current())],
        *PLAIN_HISTORIES[: {profile.QUICK: 2, profile.CI: 4}.get(profile.current())],
    ],
)
def test_a_cleaned_log_has_kafkas_files(
    cleaner: CleanerOracle,
    log_oracle: LogOracle,
    oracle: RecordsOracle,
    tmp_path: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_plain = seed in PLAIN_HISTORIES
    # With compression and without.
    pieces = SmallPieces(monkeypatch) if is_plain or seed % 4 in (2, 3) else None
    attempts = Attempts(monkeypatch)
    history, records_gone = DirtyHistory(seed, is_plain=is_plain), 0
    ours, theirs = tmp_path / "ours" / "dirty-0", tmp_path / "kafka" / "dirty-0"
    ours.mkdir(parents=True)
    now_ms, first_dirty = T0, 0

    for number in range(ROUNDS):
        side = OurCleaner(ours, history.config, now_ms)
        if number != 2:  # a round in which nothing is new: only horizons have passed
            history.write(side.log, now_ms, BATCHES)
        side.log.close()
        now_ms += history.random.choice([1, 1000, 5000, 200_000])
        shutil.rmtree(theirs, ignore_errors=True)
        shutil.copytree(ours, theirs)

        side = OurCleaner(ours, history.config, now_ms)
        bounds = first_dirty, side.first_uncleanable_offset, side.log.log_end_offset
        if bounds[0] >= bounds[1]:
            first_dirty = 0
            bounds = 0, bounds[1], bounds[2]
        if not bounds[1]:
            side.log.close()
            continue
        result = side.clean(first_dirty, history.map_size)
        side.log.close()
        answer = cleaner.clean(
            dir=str(theirs),
            config=history.config,
            logStart=0,
            logEnd=bounds[2],
            firstDirty=bounds[0],
            firstUncleanable=bounds[1],
            now=now_ms,
            mapBytes=history.map_size,
            ioBuffer=history.io_buffer_size,
        )

        if isinstance(result, CorruptRecordError):
            # The last message that may be cleaned is of an old format and would have to stay empty.
            assert answer.get("error") == "IllegalStateException", (answer, result)
            assert history.has_old_formats
            break
        compare_counts(result, answer)
        if history.recompresses:
            cleaned = {group[0] for group in result.groups}
            compare_decoded(log_oracle, oracle, ours, theirs, history.config, cleaned)
        else:
            compare_files(theirs, ours)
        first_dirty = result.end_offset
        records_gone += result.stats.records_read - result.stats.records_written

    assert records_gone > 0
    if is_plain:
        assert attempts.successes
        assert all(found is not None and found.segments for found in attempts.results)
    elif pieces is not None:
        pieces.check_used()


def compare_counts(result: CleanResult, answer: Json) -> None:
    assert result.end_offset == answer.get("endOffset"), answer
    stats = result.stats
    assert (stats.records_read, stats.records_without_key, stats.records_written) == (
        answer["recordsRead"],
        answer["invalidRead"],
        answer["recordsWritten"],
    )
    assert stats.map_records_read == answer["mapRecordsRead"]
    assert stats.bytes_read == answer["bytesRead"]


def compare_decoded(
    log_oracle: LogOracle,
    oracle: RecordsOracle,
    ours: Path,
    theirs: Path,
    config: dict[str, str],
    cleaned: set[int],
) -> None:
    """Segments that were not cleaned have not changed, and so are equal byte for byte."""
    assert names_in(ours) == names_in(theirs)
    recovered = ours.parent / "recovered-0"
    shutil.rmtree(recovered, ignore_errors=True)
    recovered.mkdir()
    for log in sorted(ours.glob("*.log")):
        if int(log.stem) in cleaned:
            shutil.copy(log, recovered)
        assert decoded(oracle, log) == decoded(oracle, theirs / log.name), log.name
    log_oracle.ask("recoverIndexes", dir=str(recovered), config=config)
    for name in names_in(theirs):
        suffix = Path(name).suffix
        is_cleaned = name[:20].isdecimal() and int(name[:20]) in cleaned
        if is_cleaned and suffix in (".index", ".timeindex"):
            assert (ours / name).read_bytes() == (recovered / name).read_bytes(), name
        elif not is_cleaned or suffix != ".log":
            compare_file(theirs / name, ours / name)


def decoded(oracle: RecordsOracle, log: Path) -> list[Json]:
    """The batches of a file, without what depends on a codec's library."""
    batches = oracle.decode(log.read_bytes())
    for batch in batches:
        for field in ("position", "size", "crc"):
            del batch[field]
    return batches
