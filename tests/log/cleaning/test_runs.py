"""A segment is read run by run; threads prepare the next ones while a run is looked at."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.log.cleaning import parts
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.kernels.memory import Bytes, byte_array
from tests import naive, naive_sums
from tests.log.cleaning.small_pieces import SmallPieces

HASH_KEY = (1, 2)
MIB = 1 << 20


class Batches:
    """A file of batches in memory, with a look at which threads read it."""

    log_path = "00000000000000000000.log"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.readers: set[threading.Thread] = set()

    @property
    def size(self) -> int:
        return len(self.data)

    def read_into(self, buffer: Bytes, position: int) -> int:
        self.readers.add(threading.current_thread())
        found = byte_array(self.data)[position : position + len(buffer)]
        buffer[: len(found)] = found
        return len(found)


def alive() -> list[threading.Thread]:
    """The threads that prepare runs."""
    return [thread for thread in threading.enumerate() if thread.name == "stratalog-runs"]


def records(seed: int, codecs: tuple[Codec, ...], size: int) -> tuple[Batches, list[tuple[int, bytes]]]:
    """Batches of all sizes, one of several megabytes now and then; and what is in them."""
    rng = random.Random(seed)
    expected: list[tuple[int, bytes]] = []
    built: list[bytes] = []
    while sum(map(len, built)) < size:
        offset = len(expected)
        keys = [rng.randbytes(rng.randrange(40)) for _ in range(rng.choice([1, 10, 300]))]
        value = rng.randbytes(rng.choice([10, 100, 20_000]) if len(keys) > 1 else rng.choice([9, 3 * MIB]))
        kept = [Record(offset + i, key=key, value=value) for i, key in enumerate(keys)]
        built.append(build_batch(kept, BatchOptions(codec=rng.choice(codecs))))
        expected += [(record.offset, record.key or b"") for record in kept]
    return Batches(b"".join(built)), expected


def looked_at(runs: Iterator[DecodedRun], pause_s: float = 0.004) -> list[tuple[int, bytes, bytes]]:
    """Offset, key and hash of each record, read only once the next run is ready too."""
    found = []
    for run in runs:
        time.sleep(pause_s)
        for row, halves in zip(run.rows, run.hashes, strict=True):
            start = row["key_position"]
            key = run.data[start : start + row["key_size"]].tobytes()
            found.append((int(row["offset"]), key, halves.astype("<u8").tobytes()))
        first = run.batches[0]
        position, base = int(first["position"]), int(first["base_offset"])
        assert run.original[position : position + 8].tobytes() == base.to_bytes(8, "big")
    return found


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("codecs", [(Codec.NONE,), (Codec.ZSTD,), (Codec.NONE, Codec.LZ4)])
def test_a_run_holds_while_the_next_ones_are_prepared(codecs: tuple[Codec, ...], threads: int) -> None:
    file, expected = records(1, codecs, 12 * MIB)
    reader = RunReader(OffsetMap(24 * 100, hash_key=HASH_KEY).hash_rows, threads=threads)

    with reader.read(file) as runs:
        found = looked_at(runs)

    assert [(offset, key) for offset, key, _ in found] == expected
    hash_key = b"".join(half.to_bytes(8, "little") for half in HASH_KEY)
    assert [kept for _, _, kept in found[::50]] == [
        naive_sums.siphash128(key, hash_key) for _, key in expected[::50]
    ]
    assert threading.current_thread() not in file.readers
    assert not alive()


def test_a_part_of_many_runs_is_delivered_one_by_one() -> None:
    """Zeros are a thousandth of their size when compressed: one read is many runs."""
    zeros = [
        build_batch([Record(i, key=b"%d" % i, value=bytes(300_000))], BatchOptions(codec=Codec.ZSTD))
        for i in range(300)
    ]
    noise = [build_batch([Record(300 + i, key=b"", value=random.randbytes(MIB))]) for i in range(2)]
    file = Batches(b"".join([*zeros, *noise]))

    reader = RunReader(OffsetMap(24 * 100, hash_key=HASH_KEY).hash_rows, threads=2)

    with reader.read(file) as runs:
        found = looked_at(runs)

    assert [(offset, key) for offset, key, _ in found] == [
        *((i, b"%d" % i) for i in range(300)),
        (300, b""),
        (301, b""),
    ]


def test_what_is_read_at_once_needs_no_thread() -> None:
    file = Batches(build_batch([Record(0, key=b"k", value=b"v")]))

    with RunReader().read(file) as runs:
        (run,) = runs

    assert run.rows["offset"].tolist() == [0]
    assert file.readers == {threading.current_thread()}


def test_damage_is_raised_where_the_runs_are_taken_and_those_before_it_are_whole() -> None:
    file, _ = records(2, (Codec.NONE,), 6 * MIB)
    file.data = file.data[:-1] + bytes([file.data[-1] ^ 1])
    found: list[int] = []

    with (
        pytest.raises(CorruptRecordError, match="batch CRC-32C") as caught,
        RunReader().read(file) as runs,
    ):
        found.extend(offset for run in runs for offset in run.rows["offset"].tolist())

    last = naive.walk(file.data, check_crc=False)[0][-1]
    assert caught.value.position == last.position
    assert found == list(range(last.base_offset))
    assert not alive()


def test_nothing_reads_on_after_an_error_of_whoever_takes_the_runs() -> None:
    file, expected = records(3, (Codec.NONE,), 8 * MIB)
    reader = RunReader()

    def write_one(_: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full") as caught, reader.read(file) as runs:
        write_one(next(runs))
    file.readers.clear()
    time.sleep(0.02)

    assert not file.readers
    assert not alive()
    assert caught.value.__traceback__ is not None  # its frames still have the runs
    with reader.read(file) as runs:
        assert sum(len(run.rows) for run in runs) == len(expected)


def test_many_threads_that_wait_for_room_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    SmallPieces(monkeypatch)
    monkeypatch.setattr(parts, "_PACKED_CHUNK_SIZE", parts.CHUNK_SIZE)
    options = BatchOptions(codec=Codec.ZSTD)  # a run for each batch, as it is larger than RUN_SIZE
    file = Batches(
        b"".join(build_batch([Record(i, key=b"k", value=bytes(500))], options) for i in range(200))
    )
    threads = 20
    read = RunReader(threads=threads).read(file)
    next(read.__enter__())
    time.sleep(0.3)  # each thread has a part of three runs, and room for two
    assert len(alive()) == threads
    closing = threading.Thread(target=read.__exit__, args=(None, None, None), daemon=True)

    closing.start()
    closing.join(20)

    assert not closing.is_alive()
    assert not alive()


def test_the_next_run_is_prepared_after_the_main_thread_has_ended_too() -> None:
    """As when a cleaner goes on beside the threads of a server that were started last."""
    program = """if True:
        import threading

        from stratalog.log.cleaning.runs import RunReader
        from stratalog.records.compression import Codec
        from tests.log.cleaning.test_runs import MIB, records

        def read():
            threading.main_thread().join()
            file, expected = records(4, (Codec.NONE,), 4 * MIB)
            with RunReader().read(file) as runs:
                print(sum(len(run.rows) for run in runs) == len(expected))

        threading.Thread(target=read).start()
    """

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.stderr) == ("True\n", "")


@pytest.mark.parametrize("codecs", [(Codec.NONE,), (Codec.ZSTD,), tuple(Codec)])
def test_backwards_the_same_records_come_run_by_run(codecs: tuple[Codec, ...]) -> None:
    file, expected = records(3, codecs, 4 * MIB)
    reader = RunReader(OffsetMap(24 * 100, hash_key=HASH_KEY).hash_rows, threads=2)
    forwards, hashes, starts = [], [], []
    with reader.read(file) as runs:
        for run in runs:
            forwards += run.rows["offset"].tolist()
            hashes += run.hashes.tolist()
    at = 0
    while at < file.size:
        starts.append(at)
        at += 12 + int.from_bytes(file.data[at + 8 : at + 12], "big")

    found = []
    with reader.read_backwards(file, 0, starts, lambda *_: None) as runs:
        for run in runs:
            offsets = run.rows["offset"].tolist()
            found.append((offsets, run.hashes.tolist(), run.size))

    assert forwards == [offset for offset, _ in expected]
    assert [offset for offsets, _, _ in reversed(found) for offset in offsets] == forwards
    assert [each for _, made, _ in reversed(found) for each in made] == hashes
    assert sum(size for _, _, size in found) == file.size
    assert len(found) > 3


def test_backwards_batches_that_unpack_to_a_hundred_times_their_size_are_read() -> None:
    """The first parts are small: nothing is known of the batches then, and a part must not be too large."""
    value = random.Random(1).randbytes(1800) + bytes(200_000)
    batch = build_batch([Record(0, key=b"k", value=value)], BatchOptions(codec=Codec.ZSTD))
    count = 2 * MIB // len(batch)
    file = Batches(batch * count)

    with RunReader(threads=2).read_backwards(
        file, 0, [*range(0, file.size, len(batch))], lambda *_: None
    ) as runs:
        found = sum(len(run.rows) for run in runs)

    assert len(batch) < 2000
    assert found == count
