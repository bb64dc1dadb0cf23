"""A listing that is torn by the renames of a cleaner: files that it has under neither name are found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations

from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry, EntryKind, FileId
from stratalog.files.names import FileKind
from stratalog.log.api.listing import list_log, offsets_of, whole_swaps

OLD, NEW = FileId("old"), FileId("new")
LOG = f"{0:020d}.log"
# How a broker replaces a segment by its cleaned one, as observed; the rest is deleted later.
STATES = [
    {LOG: OLD, f"{LOG}.cleaned": NEW},
    {LOG: OLD, f"{LOG}.swap": NEW},
    {f"{LOG}.deleted": OLD, f"{LOG}.swap": NEW},
    {f"{LOG}.deleted": OLD, LOG: NEW},
    {LOG: NEW},
]
NAMES = sorted({name for state in STATES for name in state})


class Scanned(Disk):
    """Answers with these listings, and then always with the last one."""

    def __init__(self, *listings: dict[str, FileId]) -> None:
        super().__init__()
        self._coming: Iterator[dict[str, FileId]] = iter(listings)
        self._last = listings[-1]

    def list_directory(self, path: object) -> list[DirectoryEntry]:  # noqa: ARG002 (there is only one)
        found = next(self._coming, self._last)
        return [DirectoryEntry(name, EntryKind.FILE, 100, file, False) for name, file in found.items()]


def torn_scans() -> Iterator[tuple[dict[str, FileId], dict[str, FileId]]]:
    """A listing that sees one state up to a name and a later state after it; and the later state."""
    for order in permutations(NAMES):
        for before, after in combinations(STATES, 2):
            for cut in range(len(order) + 1):
                found = {name: before[name] for name in order[:cut] if name in before}
                yield found | {name: after[name] for name in order[cut:] if name in after}, after


def has_segment(disk: Disk) -> bool:
    files = list_log(disk, "t-0")
    return 0 in (*offsets_of(files, FileKind.LOG), *whole_swaps(files))


def test_a_segment_that_is_renamed_while_its_directory_is_listed_is_found() -> None:
    scans = list(torn_scans())
    # Some listings have the segment under no name at all, and no trace of it.
    assert any(not found for found, _ in scans)

    assert all(has_segment(Scanned(found, after)) for found, after in scans)


def test_a_directory_at_rest_is_listed_twice_and_no_more() -> None:
    listings = [{LOG: OLD}, {LOG: OLD}, {}]

    assert has_segment(Scanned(*listings))
