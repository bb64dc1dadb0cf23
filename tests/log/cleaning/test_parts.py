"""A file in parts: sizes of reads, batches larger than a read, tables that grow, and files that end early."""

from __future__ import annotations

import random

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.log.cleaning.parts import PartMemory, PartSource
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
