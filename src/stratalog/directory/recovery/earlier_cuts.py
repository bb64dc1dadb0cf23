"""What earlier recoveries of a log directory have cut off, if they were killed or failed.

Only their own reports would have named it. Their ids are in the directory's note (`clean_state.py`), and in
the lines of the manifests about the bytes that they kept. Bytes that are still in their log are not cut off.
What the note and the manifests do not account for is unknown, and is said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stratalog.directory.clean_state import HERE, NOTE, EarlierRuns
from stratalog.directory.layout import Problem
from stratalog.errors import DiskError, QuarantineError
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind, inode_of
from stratalog.files.names import FileKind
from stratalog.files.paths import join_path
from stratalog.log.recovery.manifest import ManifestEntry
from stratalog.log.recovery.quarantine import Quarantine
from stratalog.log.recovery.zero_runs import runs_of_range

_Line = tuple[ManifestEntry, bool]  # and whether its bytes are still in quarantine


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierCuts:
    """The bytes of logs that earlier recoveries have cut off; `unknown` are reasons to think of more."""

    lines: tuple[_Line, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(line.size for line, _ in self.lines)

    @property
    def kept_size(self) -> int:
        """The bytes that are still in quarantine."""
        return sum(line.size for line, is_kept in self.lines if is_kept)

    def problems(self) -> Iterator[Problem]:
        """For the report: a row for each partition, and one for each reason."""
        sizes: dict[tuple[str, bool], int] = {}
        for line, is_kept in self.lines:
            key = line.partition, not is_kept
            sizes[key] = sizes.get(key, 0) + line.size
        for (partition, is_gone), size in sorted(sizes.items()):
            words = f"{size} bytes were cut off by a recovery that did not end"
            where = "they are no longer in quarantine" if is_gone else "they are in quarantine"
            yield Problem(partition, words, where)
        for why in self.unknown:
            words = f"a recovery that did not end may have cut something off, and {why}"
            yield Problem(NOTE, words, "what it cut off is not in this report")


def lost_before() -> Problem:
    """For the report, if the note says that something was lost, and nothing else shows what."""
    words = "an earlier run that did not end has found that records are missing, or has cut something off"
    return Problem(NOTE, words, "what it was is not in this report")


def find_earlier_cuts(
    disk: Disk, directory: str, earlier: EarlierRuns, quarantines: Sequence[Quarantine]
) -> EarlierCuts:
    """Look for the lines of the earlier runs, also in the `quarantines` of this one.

    Called before this recovery changes anything, so that it sees what the earlier ones have left.
    """
    if earlier.are_told:
        return EarlierCuts()
    unknown = []
    if not earlier.is_readable:
        unknown.append("its note cannot be read")
    if not earlier.keeps_all:
        unknown.append("kept nothing")
    names = {directory if name == HERE else name: name for name in (HERE, *earlier.places, *earlier.kept_in)}
    places = {path: Quarantine(disk, path) for path in names}
    places |= {place.directory: place for place in quarantines}
    lines: list[_Line] = []
    for path, place in sorted(places.items()):
        try:
            if path in names and not disk.exists(path):
                unknown.append(f"kept it in {path}, which is not there now")
                continue
            found = place.lines_of_runs(earlier.runs)
        except (DiskError, QuarantineError) as error:
            unknown.append(f"what it kept cannot be read: {error}")
            continue
        if not found and names.get(path) in earlier.kept_in:
            unknown.append(f"kept it in {path}, whose manifest does not list it now")
        lines += found
    cut = [each for each in _without_twins(lines) if not _is_in_log(disk, directory, each[0])]
    return EarlierCuts(lines=tuple(cut), unknown=tuple(unknown))


def _without_twins(lines: Iterable[_Line]) -> list[_Line]:
    """One line for each range of a log.

    A quarantine may be found under two names. Kept bytes may be replaced later (`Quarantine.replace`): the
    first line of a run has the size that was cut off. Two runs may have kept the same bytes.
    """
    of_runs: dict[tuple[str, str, str, int], _Line] = {}
    for line, is_kept in lines:
        if line.file.endswith(FileKind.LOG.value):
            key = line.run, line.partition, line.file, line.position
            first, was_kept = of_runs.get(key, (line, False))
            of_runs[key] = first, was_kept or is_kept
    found: list[_Line] = []
    for line, is_kept in of_runs.values():
        twin = next((at for at, (other, _) in enumerate(found) if _is_same(line, other)), None)
        if twin is None:
            found.append((line, is_kept))
        elif is_kept:
            found[twin] = line, True
    return [each for each in found if each[0].size]


def _is_same(line: ManifestEntry, other: ManifestEntry) -> bool:
    """Whether two runs have kept the same bytes. A file that was only renamed has no hash."""
    one, two = ((each.partition, each.file, each.position, each.size) for each in (line, other))
    return one == two and (line.sha256 == other.sha256 or None in (line.sha256, other.sha256))


def _is_in_log(disk: Disk, directory: str, kept: ManifestEntry) -> bool:
    """Whether these bytes are still in their log: they were kept, but not cut off.

    If they cannot be read, they count as cut off.
    """
    path = join_path(directory, kept.partition, kept.file)
    try:
        status = disk.status(path)
        if status is None or status.kind is not EntryKind.FILE or status.size < kept.position + kept.size:
            return False
        if kept.sha256 is None:
            return inode_of(status.id) == kept.inode
        return runs_of_range(disk, path, kept.position, kept.size)[1] == kept.sha256
    except (DiskError, QuarantineError):
        return False
