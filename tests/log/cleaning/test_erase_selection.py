"""Which records are named."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.log.cleaning.erase_selection import ErasedRange, Selection
from tests.log.cleaning.dirty import Dirty
from tests.log.cleaning.erasing import erased


def test_offsets_are_erased_whatever_their_keys() -> None:
    dirty = Dirty()
    dirty.put(*((b"%d" % number, b"v") for number in range(8)))

    erased(dirty, offsets=[(6, 6), (1, 2), (2, 3)])

    assert dirty.offsets == [0, 4, 5, 7]


@pytest.mark.parametrize("ranges", [[(5, 4)], [(-1, 3)], []])
def test_a_selection_of_nothing_is_wrong_usage(ranges: list[ErasedRange]) -> None:
    with pytest.raises(UsageError):
        Selection.of((), ranges)
