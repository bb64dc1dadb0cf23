"""How a log directory was last shut down: its clean-shutdown file, and the note that replaces it.

{"version": 0, "was_clean": true, "broker_epoch": 226, "registration": 226, "has_cut": false,
 "runs": ["5f0c..."], "places": [".", "/mnt/spare"], "kept_in": ["."], "keeps_all": true}

The clean-shutdown file is removed before the first change of a directory and put back last. Some work loses
no record when it is killed: recovery, retention, compaction, erasing, a write of staged segments. Such work
writes the note first (`stratalog-session.json`, as above), so that the next recovery knows the epoch, and
what a killed recovery has cut off. A session that appends records writes no note and deletes an older one:
after a kill nobody knows which records reached the device. If a broker has run since, what the note says of
the clean-shutdown file is out of date: `know_registration`.

A recovery that cuts something off adds its random id to the note, and to the lines of the manifests
(`log/recovery/manifest.py`). So the next recovery finds these lines, whatever the clock says and wherever the
directory is now (`recovery/earlier_cuts.py`). The note of such a recovery stays, even beside a
clean-shutdown file, until a recovery has reported what was cut off.

This is the only code that writes or deletes a clean-shutdown file (`tests/test_tidy_locks.py`).
Why: docs/decisions/0012-epoch-of-the-clean-shutdown-file.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from stratalog.directory.clean_shutdown import (
    NO_PROMISE,
    SAYS_NOTHING,
    UNKNOWN_EPOCH,
    CleanShutdown,
    CleanShutdownFile,
    format_clean_shutdown,
)
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.paths import absolute_path, is_path_text, join_path
from stratalog.limits import INT64_MAX

NOTE = "stratalog-session.json"
HERE = "."  # the log directory itself, as a place of a note
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRuns:
    """Recoveries that have cut something off, and whose cuts no recovery has reported yet.

    `runs` are their ids. `places` are the directories in which they could keep the cut bytes; "." is the log
    directory itself. `kept_in` are the places in which they have kept something. `keeps_all`: each of these
    recoveries had a place.
    `is_readable` is False if the note is damaged: then nothing is known about them.
    """

    runs: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    kept_in: tuple[str, ...] = ()
    keeps_all: bool = True
    is_readable: bool = True

    @property
    def are_told(self) -> bool:
        """Whether all cuts were reported, so that there are no such recoveries."""
        return self.is_readable and not self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """`was_clean`: the clean-shutdown file existed, with the content `said`.

    `registration` is the epoch of the broker's last registration at that time; None if it was not known.
    `has_cut`: more than a torn tail was cut off.
    """

    was_clean: bool = False
    said: CleanShutdown = SAYS_NOTHING
    registration: int | None = None
    has_cut: bool = False
    earlier: EarlierRuns = EarlierRuns()


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
            self.note = Note(was_clean=True, said=self.file.read(), earlier=self.note.earlier)

    @property
    def has_note(self) -> bool:
        """Whether a session has begun here, and has not ended."""
        return self._has_note

    def remove(self, *, leaves_note: bool = True) -> None:
        """Remove the file; durable when this returns. With `leaves_note`, its content is kept in the note."""
        if not self.file.exists():
            return
        if leaves_note:
            self._write(self.note)
        elif self._has_note:
            self._drop_note()
        self._delete()

    def note_cut(self) -> None:
        """Note that more than a torn tail is cut off or missing; called before the cut."""
        if not self.note.has_cut:
            self._write(replace(self.note, has_cut=True))

    def note_recovery(self, run: str, places: Iterable[str]) -> None:
        """Note that a recovery cuts something off, even if it is only a torn tail; called before the cut.

        If there are no `places`, the recovery keeps nothing.
        """
        earlier, names = self.note.earlier, {self._name_of(place) for place in places}
        self._write_earlier(
            replace(
                earlier,
                runs=tuple(sorted({*earlier.runs, run})),
                places=tuple(sorted({*earlier.places, *names})),
                keeps_all=earlier.keeps_all and bool(names),
            )
        )

    def note_kept(self, place: str) -> None:
        """Note that this recovery has kept something in this directory; called before it is cut off."""
        earlier = self.note.earlier
        if not earlier.are_told:
            kept_in = tuple(sorted({*earlier.kept_in, self._name_of(place)}))
            self._write_earlier(replace(earlier, kept_in=kept_in))

    def know_registration(self, epoch: int | None) -> None:
        """Compare the note with the broker's last registration; called after `look`, before any change.

        If the broker has registered since the note was written, it has run since, and then the note's
        `was_clean` and epoch are out of date. If the note does not say which registration was the last one
        then, only the epoch is dropped: it might promise too much. What was cut off before still counts.
        """
        note = self.note
        if epoch is None or not note.was_clean:
            return
        if self.file.exists():
            self.note = replace(note, registration=epoch)
        elif not note.said.has_epoch:
            return
        elif note.registration is not None and note.registration < epoch:
            self.note = replace(note, was_clean=False, said=SAYS_NOTHING, registration=None)
        elif note.registration is None and (note.said.broker_epoch or 0) < epoch:
            self.note = replace(note, said=NO_PROMISE)

    def put_back(self, content: CleanShutdown) -> None:
        """Write the file, as the last step. The note is deleted, except for cuts that were not reported yet.

        If that fails, the file is deleted if possible: it might exist without being synced.
        """
        try:
            self._disk.replace(self.file.path, format_clean_shutdown(content))
            self._drop_note()
        except DiskError:
            with suppress(DiskError):
                self._delete()
            raise

    def forget_earlier(self) -> None:
        """Delete the note: a recovery has reported its own cuts and those of all earlier ones."""
        if not self.note.earlier.are_told and self._disk.delete(self.path):
            self._has_note = False
            self._disk.sync_directory(self._directory)

    def discard(self) -> None:
        """Delete the file of a lone log: from now on the file of its log directory is used."""
        self._delete()

    def _delete(self) -> None:
        if self._disk.delete(self.file.path):
            self._disk.sync_directory(self._directory)

    def _drop_note(self) -> None:
        if self.note.earlier.are_told:
            self._disk.delete(self.path)
            self._has_note = False
        else:
            self._disk.replace(self.path, _format(Note(earlier=self.note.earlier)))

    def _name_of(self, place: str) -> str:
        """The name of a place in the note; "." for the log directory itself, which may be moved."""
        path = absolute_path(place)
        return HERE if path == absolute_path(self._directory) else path

    def _write_earlier(self, earlier: EarlierRuns) -> None:
        if earlier != self.note.earlier:
            self._write(replace(self.note, earlier=earlier))

    def _write(self, note: Note) -> None:
        self._disk.replace(self.path, _format(note))
        self.note = note
        self._has_note = True


def _format(note: Note) -> bytes:
    document = {
        "version": _VERSION,
        "was_clean": note.was_clean,
        **note.said.fields(),
        "registration": note.registration,
        "has_cut": note.has_cut,
        "runs": note.earlier.runs if note.earlier.is_readable else None,
        "places": note.earlier.places,
        "kept_in": note.earlier.kept_in,
        "keeps_all": note.earlier.keeps_all,
    }
    return json.dumps(document).encode()


def _parse(data: bytes) -> Note:
    """Parse a note; an unreadable one counts as the worst case."""
    worst = Note(has_cut=True, earlier=EarlierRuns(is_readable=False))
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):  # nested deeper than any note of ours
        return worst
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        return worst
    epochs = [found.get("broker_epoch"), found.get("registration")]
    lists = [found.get(name, []) for name in ("runs", "places", "kept_in")]
    if not all(map(_is_epoch, epochs)) or not all(map(_is_list_of_text, lists)):
        return worst
    runs, places, kept_in = map(tuple, lists)
    return Note(
        was_clean=found.get("was_clean") is True,
        said=CleanShutdown.of_fields(found),
        registration=found.get("registration"),
        has_cut=found.get("has_cut") is not False,
        earlier=EarlierRuns(
            runs=runs, places=places, kept_in=kept_in, keeps_all=found.get("keeps_all", True) is True
        ),
    )


def _is_epoch(value: object) -> bool:
    """Whether it is an epoch, or says that there is none."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value is None or (is_number and UNKNOWN_EPOCH <= value <= INT64_MAX)  # type: ignore[operator]


def _is_list_of_text(value: object) -> bool:
    """Whether it is a list of ids or paths. A path with a zero byte is in no note of ours."""
    return isinstance(value, list) and all(map(is_path_text, value))
