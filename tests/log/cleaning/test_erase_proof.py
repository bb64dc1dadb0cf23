"""What was written is compared with what should be left, before the old file goes."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.errors import EraseProofError
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning.erase import FileOfBatches
from stratalog.log.cleaning.erase_proof import prove
from stratalog.log.cleaning.erase_selection import Selection, hash_of_key
from stratalog.records.build import Record, build_batch
from tests.log.cleaning.dirty import NOW
from tests.log.cleaning.erasing import OPTIONS, erase

FIRST, GONE, LAST = Record(0, NOW, b"b", b"1"), Record(1, NOW, b"a", b"1"), Record(2, NOW, b"d", b"1")
SECOND = Record(3, NOW, b"c", b"1")


def batches(*groups: list[Record]) -> bytes:
    return b"".join(build_batch(group, OPTIONS) for group in groups)


BEFORE = batches([FIRST, GONE, LAST], [SECOND])


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (BEFORE, "exactly the records that stay"),
        (batches([FIRST, LAST._replace(value=b"2")], [SECOND]), "exactly the records that stay"),
        (batches([FIRST, LAST], [SECOND._replace(value=b"2")]), "has changed"),
        (batches([FIRST, LAST]), "has changed"),
        (batches([FIRST, LAST], [SECOND]) + b"\0" * 9, "end at byte"),
        (b"", "number of batches"),
    ],
)
def test_what_is_not_what_should_be_left_is_refused(after: bytes, words: str) -> None:
    disk = SimulatedDisk.of({"/before": BEFORE, "/after": after})

    with pytest.raises(EraseProofError, match=words):
        prove(
            FileOfBatches(disk, "/before"),
            FileOfBatches(disk, "/after"),
            Selection.of([b"a"]),
            np.array([0]),
        )


def test_what_was_removed_is_told_with_keys_as_hashes() -> None:
    disk = SimulatedDisk.of({f"/t-0/{0:020d}.log": BEFORE})

    ((_, done),) = erase(disk, "/t-0", keys=[b"a", b"nobody"], offsets=[(3, 3)])

    assert (done.removed.records_count, done.removed.first_offset, done.removed.last_offset) == (2, 1, 3)
    assert done.removed.key_hashes == {hash_of_key(b"a"), hash_of_key(b"c")}
