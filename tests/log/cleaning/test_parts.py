"""A file in parts: sizes of reads, batches larger than a read, tables that grow, and files that end early."""

from __future__ import annotations

import random

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.log.cleaning.parts import BackwardSource, NotBackwardsError, PartMemory, PartSource
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.headers import CHUNK_SIZE
from tests import naive
from tests.log.cleaning.test_runs import Batches


def batches_of(*sizes: int) -> Batches:
    """A batch of one record for each of these sizes of a value."""
    return Batches(b"".join(build_batch([Record(i, 0, b"k", bytes(size))]) for i, size in enumerate(sizes)))


def bases_of(file: Batches) -> list[list[int]]:
    """The offsets of the batches of each part."""
    source, memory, found = PartSource(file, 0), PartMemory(), []
    while (part := source.next_part(memory)) is not None:
        assert part.problem is None
        starts = part.headers["position"] + part.position
        assert [file.data[at : at + 8] for at in starts.tolist()] == [
            base.to_bytes(8, "big") for base in part.headers["base_offset"].tolist()
        ]
        found.append(part.headers["base_offset"].tolist())
    return found


def test_every_batch_is_in_one_part() -> None:
    file = batches_of(*[40_000] * 60)

    found = bases_of(file)

    assert [base for part in found for base in part] == [*range(60)]
    assert [len(part) for part in found] == [26, 26, 8]


def test_a_batch_that_is_larger_than_a_read_is_a_part_of_its_own_and_its_memory_is_given_back() -> None:
    file = batches_of(10, 3 * CHUNK_SIZE, 10, 10)
    source, memory = PartSource(file, 0), PartMemory()
    sizes = []
    while (part := source.next_part(memory)) is not None:
        sizes.append((part.headers["base_offset"].tolist(), len(part.data) > CHUNK_SIZE))

    assert sizes == [([0], False), ([1], True), ([2, 3], False)]


def test_a_table_grows_with_the_batches_that_are_there() -> None:
    file = batches_of(*[0] * 5000)

    assert bases_of(file) == [[*range(5000)]]


def test_reads_are_smaller_after_compressed_batches() -> None:
    noise = random.Random(1)
    parts = [
        build_batch([Record(i, 0, b"k", noise.randbytes(60_000))], BatchOptions(codec=codec))
        for i, codec in enumerate([Codec.NONE] * 20 + [Codec.LZ4] * 20 + [Codec.NONE] * 30)
    ]

    found = bases_of(Batches(b"".join(parts)))

    assert [base for part in found for base in part] == [*range(70)]
    assert [len(part) for part in found] == [17, 17, 4, 4, 17, 11]


class Shorter(Batches):
    """A file that has become shorter since its size was asked."""

    kept_size = 0

    def read_into(self, buffer: Bytes, position: int) -> int:
        return min(super().read_into(buffer, position), max(0, self.kept_size - position))


@pytest.mark.parametrize(
    ("kept_size", "position", "sentence"),
    [
        (0, 0, "the file ends here, 207 bytes too early."),
        (138, 138, "the file ends here, 69 bytes too early."),
        (150, 138, "the last batch is cut off: only 12 bytes of it are there."),
    ],
)
def test_a_file_that_ends_early_is_a_problem_after_its_whole_batches(
    kept_size: int, position: int, sentence: str
) -> None:
    file = Shorter(batches_of(0, 0, 0).data)
    file.kept_size = kept_size
    source, memory = PartSource(file, 0), PartMemory()

    part = source.next_part(memory)

    assert part is not None
    assert isinstance(part.problem, CorruptRecordError)
    assert (part.problem.position, part.problem.path) == (position, file.log_path)
    assert sentence in str(part.problem)
    assert part.headers["position"].tolist() == [
        batch.position for batch in naive.walk(file.data[:position], check_crc=False)[0]
    ]
    assert source.next_part(memory) is None


def test_a_length_past_the_end_of_the_file_is_no_reason_to_read_all_of_it() -> None:
    damaged = bytearray(batches_of(*[40_000] * 60).data)
    damaged[8:12] = (2**31 - 100).to_bytes(4, "big")
    source, memory = PartSource(Batches(bytes(damaged)), 0), PartMemory()

    part = source.next_part(memory)

    assert part is not None
    assert isinstance(part.problem, CorruptRecordError)
    assert part.problem.position == 0
    assert len(part.data) == CHUNK_SIZE


def starts_of(file: Batches) -> list[int]:
    memory, starts = PartMemory(), []
    source = PartSource(file, 0)
    while (part := source.next_part(memory)) is not None:
        starts += (part.headers["position"] + part.position).tolist()
    return starts


def backwards(file: Batches, starts: list[int], position: int = 0) -> tuple[list[list[int]], list[int]]:
    """The offsets of the batches of each part, and the bytes that the system was told to read."""
    expected: list[int] = []
    source = BackwardSource(file, position, starts, lambda at, size: expected.extend((at, size)))
    source.part_size = CHUNK_SIZE >> 2
    memory, found = PartMemory(), []
    while (part := source.next_part(memory)) is not None:
        assert file.data[part.position :].startswith(part.data[:8].tobytes())
        found.append(part.headers["base_offset"].tolist())
    return found, expected


@pytest.mark.parametrize("every", [1, 3, 7])
def test_backwards_every_batch_is_in_one_part_too(every: int) -> None:
    file = batches_of(*[40_000] * 60)

    found, expected = backwards(file, starts_of(file)[every::every])

    assert [base for part in reversed(found) for base in part] == [*range(60)]
    assert {len(part) for part in found[:-1]} == {{1: 6, 3: 6, 7: 7}[every], len(found[0])}
    assert expected == [0, file.size]


def test_backwards_a_part_begins_at_the_given_position_or_later() -> None:
    file = batches_of(*[100_000] * 10)
    starts = starts_of(file)

    found, _ = backwards(file, starts, starts[3])

    assert sorted(base for part in found for base in part) == [*range(3, 10)]


def test_backwards_the_system_is_told_of_a_large_file_in_time() -> None:
    file = batches_of(*[CHUNK_SIZE // 4] * 100)

    _, expected = backwards(file, starts_of(file))

    ends = [at + size for at, size in zip(expected[::2], expected[1::2], strict=True)]
    assert ends == [file.size, *expected[:-2:2]]
    assert expected[-2] == 0
    assert len(ends) > 2


@pytest.mark.parametrize(
    "starts", [[5], [150_000], [360_000, 200_000]], ids=["before", "inside", "descending"]
)
def test_starts_that_are_not_those_of_batches_are_noticed(starts: list[int]) -> None:
    file = batches_of(*[40_000] * 10)

    with pytest.raises(NotBackwardsError):
        backwards(file, starts)


def test_a_file_of_many_megabytes_without_starts_is_not_read_backwards() -> None:
    with pytest.raises(NotBackwardsError):
        backwards(batches_of(*[CHUNK_SIZE] * 9), [])


def test_backwards_parts_are_as_large_as_their_records_allow() -> None:
    source = BackwardSource(batches_of(10), 0, [], lambda *_: None)
    sizes = []
    for unpacked in (1 << 10, 1 << 16, 1 << 20, 1 << 30):
        source.adapt(1 << 16, unpacked, 1 << 19)
        sizes.append(source.part_size)

    assert sizes == [CHUNK_SIZE, 1 << 19, 1 << 15, CHUNK_SIZE >> 6]
