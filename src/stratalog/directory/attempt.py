"""What a recovery that was killed leaves for the next one: `stratalog-recover.json` in the log directory.

{"version": 0, "was_clean": true, "broker_epoch": 226, "has_cut": false}

The marker of a clean stop is taken away before the first change and written last. Killed in between, a second
run would find nothing more to cut and could not tell that the first one did: it would promise the controller
that every acknowledged record is there. And it would not know the epoch of a directory that was clean to
begin with. A note that outlived a broker's next run does no harm: its epoch is not the one that the
controller compares with. A broker does not look at files of other names.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace

from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.errors import DiskError
from stratalog.files.disk import Disk

NOTE = "stratalog-recover.json"
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """`was_clean`: a marker was there, with this epoch if any. `has_cut`: more than a torn tail is gone."""

    was_clean: bool = False
    broker_epoch: int | None = None
    has_cut: bool = False


class Attempt:
    """The note of one log directory, and the marker whose place it takes."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.marker = CleanShutdownFile(disk, directory)
        self.path = f"{directory}{os.sep}{NOTE}"
        self.note = Note()
        self._disk = disk
        self._is_written = False

    def look(self) -> None:
        """Read what is there, and change nothing."""
        data = self._disk.read_file(self.path)
        if data is not None:
            self.note = _parse(data)
            self._is_written = True
        if self.marker.exists():
            self.note = Note(was_clean=True, broker_epoch=self.marker.read())

    def begin(self) -> None:
        """Take the marker away, for good when this returns; the next run knows what it said."""
        if self.marker.exists():
            self._write(self.note)
            self.marker.delete()

    def note_cut(self) -> None:
        """Remember, before it is done or lost from sight, that more than a torn tail is gone."""
        if not self.note.has_cut:
            self._write(replace(self.note, has_cut=True))

    def end(self, broker_epoch: int | None) -> None:
        """Write the marker: the last thing but for the note, which is worthless then.

        Where that fails no marker is left, if the disk lets it be deleted: it may be there, but not synced.
        """
        try:
            self.marker.write(broker_epoch)
            if self._is_written:
                self._disk.delete(self.path)
        except DiskError:
            with suppress(DiskError):
                self.marker.delete()
            raise

    def _write(self, note: Note) -> None:
        document = {
            "version": _VERSION,
            "was_clean": note.was_clean,
            "broker_epoch": note.broker_epoch,
            "has_cut": note.has_cut,
        }
        self._disk.replace(self.path, json.dumps(document).encode())
        self.note = note
        self._is_written = True


def _parse(data: bytes) -> Note:
    """What a note says; one that cannot be read says the worst."""
    worst = Note(has_cut=True)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):  # as deep as no note of ours is
        return worst
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        return worst
    epoch = found.get("broker_epoch")
    return Note(
        was_clean=found.get("was_clean") is True,
        broker_epoch=epoch if isinstance(epoch, int) else None,
        has_cut=found.get("has_cut") is not False,
    )
