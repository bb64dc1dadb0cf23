"""How a log directory was last shut down: its clean-shutdown file, and the note that replaces it.

{"version": 0, "was_clean": true, "broker_epoch": 226, "has_cut": false, "cuts_since_ms": null, "kept_in": []}

The clean-shutdown file is removed before the first change of a directory and put back last. Some work loses
no record when it is killed: recovery, retention, compaction, erasing, a write of staged segments. Such work
writes the note first (`stratalog-session.json`, as above), so that the next recovery knows the epoch, and
what a killed recovery has cut off. A session that appends records writes no note and deletes an older one:
after a kill nobody knows which records reached the device. A note that is still there after a broker's next
run is about the run before: `forget_before`.

This is the only code that writes or deletes a clean-shutdown file (`tests/test_tidy.py`).
Why: docs/decisions/0012-epoch-of-the-clean-shutdown-file.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from stratalog.directory.clean_shutdown import (
    SAYS_NOTHING,
    CleanShutdown,
    CleanShutdownFile,
    format_clean_shutdown,
)
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.paths import join_path

NOTE = "stratalog-session.json"
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """`was_clean`: the clean-shutdown file existed, with the content `said`.

    `has_cut`: more than a torn tail was cut off. `cuts_since_ms`: when the first recovery began that has cut
    something off and has not ended; None if there is none. `kept_in` are the directories of its quarantines.
    """

    was_clean: bool = False
    said: CleanShutdown = SAYS_NOTHING
    has_cut: bool = False
    cuts_since_ms: int | None = None
    kept_in: tuple[str, ...] = ()


class CleanState:
    """The clean-shutdown file of one directory, and the note; `look` first.

    `note` comes from the clean-shutdown file if it exists, otherwise from the note that a killed run has
    left.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.file = CleanShutdownFile(disk, directory)
        self.path = join_path(directory, NOTE)
        self.note = Note()
        self._disk = disk
        self._directory = directory
        self._has_note = False

    def look(self) -> None:
        """Read both files. Changes nothing."""
        data = self._disk.read_file(self.path)
        self._has_note = data is not None
        self.note = Note() if data is None else _parse(data)
        if self.file.exists():
            self.note = Note(was_clean=True, said=self.file.read())

    @property
    def has_note(self) -> bool:
        """Whether a session has begun here, and has not ended."""
        return self._has_note

    def remove(self, *, leaves_note: bool = True) -> None:
        """Remove the file; durable when this returns. With `leaves_note`, the note keeps its content."""
        if not self.file.exists():
            return
        if leaves_note:
            self._write(self.note)
        elif self._has_note:
            self._disk.delete(self.path)
            self._has_note = False
        self._delete()

    def note_cut(self) -> None:
        """Note that more than a torn tail is cut off or missing; called before the cut."""
        if not self.note.has_cut:
            self._write(replace(self.note, has_cut=True))

    def note_recovery(self, began_ms: int, kept_in: Iterable[str]) -> None:
        """Note that a recovery cuts something off, even if it is only a torn tail; called before the cut."""
        since_ms = began_ms if self.note.cuts_since_ms is None else self.note.cuts_since_ms
        places = tuple(sorted({*self.note.kept_in, *kept_in}))
        if (since_ms, places) != (self.note.cuts_since_ms, self.note.kept_in):
            self._write(replace(self.note, cuts_since_ms=since_ms, kept_in=places))

    def forget_before(self, broker_epoch: int | None) -> None:
        """Ignore `was_clean` and the epoch of a note if the broker has registered, and so run, since then.

        What was cut off before that run still counts.
        """
        said = self.note.said
        is_older = said.has_epoch and broker_epoch is not None and (said.broker_epoch or 0) < broker_epoch
        if self._has_note and self.note.was_clean and is_older and not self.file.exists():
            self.note = replace(self.note, was_clean=False, said=SAYS_NOTHING)

    def put_back(self, content: CleanShutdown) -> None:
        """Write the file, as the last step; the note is deleted, because it has no use afterwards.

        If that fails, the file is deleted if possible: it might exist without being synced.
        """
        try:
            self._disk.replace(self.file.path, format_clean_shutdown(content))
            self._disk.delete(self.path)
            self._has_note = False
        except DiskError:
            with suppress(DiskError):
                self._delete()
            raise

    def discard(self) -> None:
        """Delete the file of a lone log: from now on the file of its log directory is used."""
        self._delete()

    def _delete(self) -> None:
        if self._disk.delete(self.file.path):
            self._disk.sync_directory(self._directory)

    def _write(self, note: Note) -> None:
        document = {
            "version": _VERSION,
            "was_clean": note.was_clean,
            **note.said.fields(),
            "has_cut": note.has_cut,
            "cuts_since_ms": note.cuts_since_ms,
            "kept_in": note.kept_in,
        }
        self._disk.replace(self.path, json.dumps(document).encode())
        self.note = note
        self._has_note = True


def _parse(data: bytes) -> Note:
    """Parse a note; an unreadable one counts as the worst case."""
    worst = Note(has_cut=True)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):  # nested deeper than any note of ours
        return worst
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        return worst
    since_ms, kept_in = found.get("cuts_since_ms"), found.get("kept_in")
    return Note(
        was_clean=found.get("was_clean") is True,
        said=CleanShutdown.of_fields(found),
        has_cut=found.get("has_cut") is not False,
        cuts_since_ms=since_ms if isinstance(since_ms, int) else None,
        kept_in=tuple(map(str, kept_in)) if isinstance(kept_in, list) else (),
    )
