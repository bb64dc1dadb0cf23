"""One pass over a piece of a segment: checksums of several batches side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.records.kernels import recover as kernel
from stratalog.segment.scan import ScanStop
from tests.segment.making import records
from tests.segment.scanning import scan_of


@pytest.mark.parametrize("damaged", range(9))
def test_a_flipped_bit_is_found_among_batches_summed_side_by_side(tmp_path: Path, damaged: int) -> None:
    """Behind what fills the kernel's table: small batches in threes, and large ones between them."""
    lead = [records(offset, "hello") for offset in range(kernel.ROWS)]
    words = (1, 2, 3, 600, 3, 1, 700, 4, 5)
    batches = [records(len(lead) + number, "hello" * count) for number, count in enumerate(words)]
    before = sum(map(len, [*lead, *batches[:damaged]]))
    bad = bytearray(batches[damaged])
    bad[-1] ^= 4
    batches[damaged] = bytes(bad)

    found = scan_of(tmp_path, *lead, *batches)

    end = len(lead) + damaged
    assert (found.stop, found.valid_size, found.next_offset) == (ScanStop.WRONG_CRC, before, end)
    assert found.batches_count == end
