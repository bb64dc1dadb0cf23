"""A read by time in a damaged log: no record of that time is lost without a word, and none too late is there.

The log is written here, so the records that each read must return are known from what was written.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import stratalog
import stratalog.polars
from stratalog.errors import CorruptRecordError, StratalogError
from stratalog.jobs.reading.omissions import Omission
from stratalog.log.new_records import NewRecord
from tests import profile
from tests.jobs.reading.damaging import flip
from tests.jobs.reading.making import batches_of

BASE = 1_700_000_000_000
COUNT = 3000
LENGTH_AT = 8
pytestmark = pytest.mark.filterwarnings("ignore::stratalog.jobs.reading.omissions.OmissionWarning")


def time_of(offset: int) -> int:
    return BASE + offset * 1000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """3000 batches of one record each in several segments; the length of batch 100 is damaged."""
    with stratalog.open_log(tmp_path / "t-0", create=True, config={"segment.bytes": 1 << 20}) as log:
        for offset in range(COUNT):
            log.append(bytes(500), timestamp=time_of(offset))
    first, *later = sorted((tmp_path / "t-0").glob("*.log"))
    assert later
    flip_bit(first, sum(len(batch) for batch, _, _ in itertools.islice(batches_of(first), 100)) + LENGTH_AT)
    return tmp_path


def flip_bit(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 0x40
    log.write_bytes(data)


def scan(path: Path, **options: object) -> tuple[list[int], tuple[Omission, ...]]:
    found = stratalog.scan(path, **options)
    return found.to_table()["offset"].to_pylist(), tuple(found.omissions)


def by_polars(path: Path, since: int, **options: object) -> list[int]:
    moment = datetime.fromtimestamp(since / 1000, UTC)
    frame = stratalog.polars.scan(path, **options).filter(pl.col("timestamp") >= moment)
    return frame.collect()["offset"].to_list()


@pytest.mark.parametrize("offset", [100, 101, 103])
def test_since_does_not_jump_over_healthy_records_after_damage(log_dir: Path, offset: int) -> None:
    found, omitted = scan(log_dir, since=time_of(offset), on_corruption="skip")

    assert found == list(range(101, COUNT))
    assert [(each.first_offset, each.end_offset) for each in omitted] == [(100, 101)]
    assert by_polars(log_dir, time_of(offset), on_corruption="skip") == list(range(max(101, offset), COUNT))


@pytest.mark.parametrize("offset", [100, 101])
@pytest.mark.parametrize("bound", ["since", "until"])
def test_a_time_after_damage_is_an_error_unless_damage_is_skipped(
    log_dir: Path, bound: str, offset: int
) -> None:
    time = time_of(offset)
    reads: list[Callable[[stratalog.PartitionLog], object]] = [
        lambda _: scan(log_dir, **{bound: time}),
        lambda log: list(log.records(**{bound: time})),
        lambda log: log.offset_for_time(time),
        lambda _: by_polars(log_dir, time),
    ]
    with stratalog.open_log(log_dir / "t-0", read_only=True) as log:
        for read in reads:
            with pytest.raises(CorruptRecordError, match=r"00000000000000000000\.log at byte 57000"):
                read(log)


def test_until_does_not_return_records_that_are_later(log_dir: Path) -> None:
    found, omitted = scan(log_dir, until=time_of(101), on_corruption="skip")

    assert found == list(range(100))
    assert [(each.first_offset, each.end_offset) for each in omitted] == [(100, 101)]


@pytest.mark.parametrize("offset", [50, 99, 150, 500, 2500])
def test_a_time_elsewhere_is_found_as_in_a_healthy_log(log_dir: Path, offset: int) -> None:
    with stratalog.open_log(log_dir / "t-0", read_only=True) as log:
        assert log.offset_for_time(time_of(offset)) == offset
    found, _ = scan(log_dir, since=time_of(offset), on_corruption="skip")
    assert found == [each for each in range(offset, COUNT) if each != 100]


def test_a_wrong_offset_does_not_lead_a_read_by_time_away(log_dir: Path) -> None:
    """No checksum covers a batch's offset."""
    last = sorted((log_dir / "t-0").glob("*.log"))[1]
    batches = list(batches_of(last))
    offset = batches[50][1]
    flip(last, 4 + sum(len(batch) for batch, _, _ in batches[:50]))

    found, omitted = scan(log_dir, since=time_of(offset), on_corruption="skip")

    assert found == list(range(offset + 1, COUNT))
    assert offset in range(omitted[0].first_offset, omitted[0].end_offset or 0)
    with pytest.raises(CorruptRecordError):
        scan(log_dir, since=time_of(offset))


DAMAGE: dict[str, Callable[[bytearray, int, random.Random], None]] = {
    "a flipped bit": lambda data, at, rnd: data.__setitem__(at, data[at] ^ 1 << rnd.randrange(8)),
    "inserted": lambda data, at, rnd: data.__setitem__(
        slice(at, at), rnd.randbytes(rnd.choice([1, 3, 61, 500]))
    ),
    "deleted": lambda data, at, rnd: data.__delitem__(slice(at, at + rnd.choice([1, 3, 61, 500]))),
    "zeros": lambda data, at, _: data.__setitem__(slice(at, at + 200), bytes(200)),
}


@pytest.mark.parametrize("has_time_index", [True, False])
@pytest.mark.parametrize("kind", DAMAGE)
def test_reads_by_time_in_a_damaged_log_are_right_or_tell(
    tmp_path: Path, kind: str, has_time_index: bool
) -> None:
    """Times go up and down. What a healthy log returns is known; all that is not returned must be told."""
    rnd = random.Random(f"{kind} {has_time_index}")
    times = [BASE + each * 1000 + rnd.choice([0, 0, 0, -20_000, 30_000]) for each in range(2500)]
    with stratalog.open_log(tmp_path / "a" / "t-0", create=True, config={"segment.bytes": 1 << 20}) as log:
        for start in range(0, len(times), 6):
            log.append_many(
                [NewRecord(rnd.randbytes(1300), timestamp=each) for each in times[start : start + 6]],
                codec=rnd.choice(["none", "none", "zstd"]),
            )
    for number in range(profile.examples(60, ci=2, quick=2)):
        copy = Path(shutil.copytree(tmp_path / "a", tmp_path / f"{number}"))
        file = rnd.choice(sorted((copy / "t-0").glob("*.log"))[:-1])
        data = bytearray(file.read_bytes())
        at = rnd.randrange(len(data) - 600)
        DAMAGE[kind](data, at, rnd)
        file.write_bytes(data)
        if not has_time_index:
            file.with_suffix(".timeindex").unlink()
        for time in rnd.sample(times, 3):
            check(copy, times, time)
        shutil.rmtree(copy)


def check(copy: Path, times: list[int], time: int) -> None:
    first = next(offset for offset, each in enumerate(times) if each >= time)
    for bound, wanted in (("since", range(first, len(times))), ("until", range(first))):
        found, omitted = scan(copy, on_corruption="skip", **{bound: time})
        told = {
            offset for each in omitted for offset in range(each.first_offset, each.end_offset or len(times))
        }
        assert set(wanted) - set(found) <= told
        assert bound == "since" or set(found) <= set(wanted)
        with contextlib.suppress(StratalogError):
            assert scan(copy, **{bound: time}) == (list(wanted), ())
