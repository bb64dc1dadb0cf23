"""Keeps the bytes that recovery cuts off: files at the root of the log directory, and a manifest.

    <log.dir>/
      stratalog-quarantine.jsonl                               a line for each range or file
      stratalog-quarantine-orders-0-00000000000000000042.log-8192   the bytes of that file from byte 8192 on

Blocks of zeros, as in a preallocated or half-written file, are only counted. The log is cut after everything
here is on the device. A power cut at any moment leaves the bytes in the log or in quarantine:

- A range is copied and synced, then its line is written and synced. A copy without a line is from a killed
  run, and is made again. If the manifest already has a line with the hash of these bytes, no second line is
  written.
- A whole file is renamed. Its line is written first: a renamed file without a line could be mistaken for a
  worthless copy. A line without its file is from a killed run, and the next run moves the file.
- A line that a crash has torn is ignored (`manifest_file.py`).

Why: docs/decisions/0015-quarantine.md.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.clock import Clock, system_clock
from stratalog.errors import DiskError, QuarantineError, QuarantineFullError, StratalogError
from stratalog.files.disk import Disk, Path
from stratalog.files.entries import FileId, inode_of
from stratalog.files.names import QUARANTINE_MANIFEST, QUARANTINE_PREFIX, FileKind
from stratalog.files.paths import absolute_path, join_path, parent_path
from stratalog.files.refusals import FULL_DISK
from stratalog.log.recovery.manifest import KeptPart, ManifestEntry, is_same_range, kept_parts, short_name
from stratalog.log.recovery.manifest_file import ManifestFile
from stratalog.log.recovery.zero_runs import runs_of_range

_CHUNK_SIZE = 1 << 20
_ADVICE = "name a directory on another disk with --quarantine, or give up these bytes with --no-quarantine."


FileRange = tuple[str, int, int]  # path, position, size


class KeepingRun(NamedTuple):
    """A recovery that keeps bytes of logs. `known` are its id and those of earlier runs whose lines count.
    `on_kept` is called with the quarantine's directory before the bytes are cut off."""

    run: str
    known: frozenset[str]
    on_kept: Callable[[str], object]


class Quarantine:
    """The quarantine in one directory; one object serves all threads that cut partitions of it."""

    def __init__(
        self, disk: Disk, directory: Path, *, clock: Clock = system_clock, advice: str = _ADVICE
    ) -> None:
        self.directory = os.fspath(directory)
        self._advice = advice  # for the user, if nothing can be kept
        self._disk = disk
        self._clock = clock
        self._lock = threading.Lock()
        self._manifest = ManifestFile(disk, self.directory, advice)
        self._runs: dict[str, KeepingRun] = {}  # by log directory

    def begin_run(self, directory: Path, run: KeepingRun) -> None:
        """From now on, lines about logs in this log directory are of this run."""
        self._runs[absolute_path(directory)] = run

    def entries(self) -> tuple[ManifestEntry, ...]:
        """Everything that is kept here, oldest first; a line whose files are missing is left out.

        So are zeros that were purged later: they have no file that could be missing. If two runs have kept
        the same bytes, they are here once.
        """
        with self._lock:
            kept = self._still_kept(self._manifest.read_again())
            return tuple({replace(each, run="", reason="", time_ms=0): each for each in kept}.values())

    def lines_of_runs(self, runs: Collection[str]) -> list[tuple[ManifestEntry, bool]]:
        """The lines of these runs, oldest first, and whether the bytes are still kept."""
        with self._lock:
            lines = self._manifest.read_again()
            kept = {*self._still_kept(lines)}
            return [(line, line in kept) for line in lines if line.run in runs]

    def require_writable(self) -> None:
        """QuarantineError if this user cannot create files here."""
        if not self._disk.may_create_in(self.directory):
            raise QuarantineError(
                self.directory,
                "bytes that recovery cuts off cannot be kept here, because this user cannot create files in "
                f"it. Nothing was cut. Make it writable, {self._advice}",
            )

    def require_room(self, ranges: Iterable[FileRange]) -> None:
        """QuarantineFullError unless these ranges (path, position, size) fit, without blocks of zeros."""
        wanted = list(ranges)
        free = self._disk.free_size(self.directory)
        if sum(size for _, _, size in wanted) <= free:
            return
        # Only now are the ranges read: a preallocated tail is all zeros.
        needed = 0
        for path, position, size in wanted:
            parts, _ = runs_of_range(self._disk, path, position, size)
            needed += sum(length for length, is_zero in parts if not is_zero)
        if needed > free:
            raise QuarantineFullError(self.directory, needed, free, self._advice)

    def keep_range(
        self,
        source: Path,
        *,
        partition: str,
        file: str,
        position: int,
        size: int,
        reason: str,
        is_whole: bool = False,
    ) -> ManifestEntry:
        """Keep bytes of `source`, the .log of `partition` whose live name is `file`; on the device when this
        returns.

        QuarantineFullError, without a change, if they do not fit.
        """
        with self._lock:
            parts, digest = runs_of_range(self._disk, source, position, size)
            directory = log_directory_of(parent_path(source))
            before = self._kept_before(directory, partition, file, position, size, digest)
            if before is not None:
                return self._claim(before)
            name = self._manifest.free_name(partition, file, position)
            needed = sum(length for length, is_zero in parts if not is_zero)
            if needed:
                self._copy(source, position, parts, name, needed)
            kept = ManifestEntry(
                directory=directory,
                partition=partition,
                file=file,
                position=position,
                size=size,
                reason=reason,
                is_whole=is_whole,
                parts=kept_parts(parts, name),
                sha256=digest,
                inode=0,
                time_ms=self._clock(),
            )
            return self._write(kept)

    def names_of_range(
        self, source: Path, *, partition: str, file: str, position: int, size: int
    ) -> tuple[str, ...]:
        """The files in which `keep_range` would keep these bytes; none if they are zeros."""
        with self._lock:
            parts, digest = runs_of_range(self._disk, source, position, size)
            directory = log_directory_of(parent_path(source))
            before = self._kept_before(directory, partition, file, position, size, digest)
            if before is not None:
                return before.files
            is_copied = any(length and not is_zero for length, is_zero in parts)
            return (self._manifest.free_name(partition, file, position),) if is_copied else ()

    def _kept_before(
        self, directory: str, partition: str, file: str, position: int, size: int, digest: str
    ) -> ManifestEntry | None:
        wanted = (directory, partition, file, position, size, digest)
        for kept in reversed(self._still_kept(self._manifest.lines_of(directory, partition, file))):
            same = (kept.directory, kept.partition, kept.file, kept.position, kept.size, kept.sha256)
            if same == wanted:
                return kept
        return None

    def names_of_file(self, source: Path, *, partition: str, file: str) -> tuple[str, ...]:
        """The name that `keep_file` would give the file in quarantine, on the same device."""
        with self._lock:
            status = self._disk.status(source)
            directory = log_directory_of(parent_path(source))
            if status is not None:
                before = self.moved(directory, partition, file, status.id, status.size)
                there = None if before is None else self._disk.status(self.path(*before.files))
                if before is not None and (there is None or there.id == status.id):
                    return before.files
            return (self._manifest.free_name(partition, file, 0),)

    def keep_file(self, source: Path, *, partition: str, file: str, reason: str) -> ManifestEntry:
        """Move a whole file here; the move is on the device when this returns."""
        if not self._disk.is_same_device(parent_path(source), self.directory):
            return self._move_by_copy(source, partition, file, reason)
        with self._lock:
            status = self._disk.status(source)
            if status is None:
                raise QuarantineError(source, "the file to be kept does not exist.")
            directory = log_directory_of(parent_path(source))
            kept = self.moved(directory, partition, file, status.id, status.size)
            there = None if kept is None else self._disk.status(self.path(*kept.files))
            if kept is None or (there is not None and there.id != status.id):
                name = self._manifest.free_name(partition, file, 0)
                kept = ManifestEntry(
                    directory=directory,
                    partition=partition,
                    file=file,
                    position=0,
                    size=status.size,
                    reason=reason,
                    is_whole=True,
                    parts=(KeptPart(file=name, at=0, size=status.size),),
                    sha256=None,
                    inode=inode_of(status.id),
                    time_ms=self._clock(),
                )
                # Without this sync, a power cut could lose bytes of the file, although its new name survives.
                self._disk.sync(source)
                self._write(kept)
                there = None
            else:
                kept = self._claim(kept)
            if there is None:
                self._disk.rename(source, self.path(*kept.files))
            else:
                # A crash has left the file under both names, and a rename would do nothing.
                self._disk.delete(source)
            # The new name is synced first: a file with two names is found twice, a file without a name is
            # lost.
            self._disk.sync_directory(self.directory)
            self._disk.sync_directory(parent_path(source))
            return kept

    def moved(
        self, directory: str, partition: str, file: str, file_id: FileId, size: int
    ) -> ManifestEntry | None:
        """The entry of a file of a log directory that was moved here, or was about to be moved."""
        wanted = (directory, partition, file, inode_of(file_id), size)
        for kept in reversed(self._manifest.lines_of(directory, partition, file)):
            if (kept.directory, kept.partition, kept.file, kept.inode, kept.size) == wanted:
                return kept
        return None

    def _write(self, kept: ManifestEntry) -> ManifestEntry:
        run = self._run_of(kept)
        self._manifest.write(kept := kept if run is None else replace(kept, run=run.run))
        if run is not None:
            run.on_kept(self.directory)
        return kept

    def _claim(self, kept: ManifestEntry) -> ManifestEntry:
        """The line of bytes that are already kept; a new one if it is of a run whose lines do not count."""
        run = self._run_of(kept)
        if run is None:
            return kept
        if kept.run not in run.known:
            return self._write(replace(kept, time_ms=self._clock()))
        run.on_kept(self.directory)
        return kept

    def _run_of(self, kept: ManifestEntry) -> KeepingRun | None:
        return self._runs.get(kept.directory) if kept.file.endswith(FileKind.LOG.value) else None

    def restore(self, kept: ManifestEntry, target: Path) -> None:
        """Write kept bytes to a new file, bit for bit; they also stay in quarantine.

        No file is left if they cannot be written, or if they have changed since they were kept.
        """
        self._disk.create(target)
        # From here on the file is ours: one that another program has created first is not deleted.
        try:
            self._write_kept(kept, target)
        except StratalogError:
            with suppress(DiskError):  # a second error would hide the reason
                self._disk.delete(target)
            raise

    def _write_kept(self, kept: ManifestEntry, target: Path) -> None:
        digest = hashlib.sha256()
        buffer = aligned_buffer(_CHUNK_SIZE)
        for part in kept.parts:
            done = 0
            while done < part.size:
                view = buffer[: min(_CHUNK_SIZE, part.size - done)]
                if part.file is None:
                    view[:] = 0
                elif self._disk.read_into(self.path(part.file), view, part.at + done) < len(view):
                    raise QuarantineError(self.path(part.file), f"it ends before byte {part.at + part.size}.")
                digest.update(view.data)
                self._disk.append(target, view)
                done += len(view)
        if kept.size and kept.sha256 is not None and digest.hexdigest() != kept.sha256:
            raise QuarantineError(
                self.directory, f"the bytes kept from {kept.file} have changed: their SHA-256 is different."
            )
        self._disk.sync(target)
        self._disk.sync_directory(parent_path(os.fspath(target)))

    def _move_by_copy(self, source: Path, partition: str, file: str, reason: str) -> ManifestEntry:
        kept = self.keep_range(
            source,
            partition=partition,
            file=file,
            position=0,
            size=self._disk.size(source),
            reason=reason,
            is_whole=True,
        )
        self._disk.delete(source)
        self._disk.sync_directory(parent_path(source))
        return kept

    def replace(
        self,
        kept: ManifestEntry,
        pieces: Iterable[NDArray[np.uint8]] | None,
        *,
        reason: str,
        check: Callable[[ManifestEntry], object] | None = None,
    ) -> None:
        """Replace kept bytes by others, or delete them if `pieces` is None; a new line records it.

        `check` is called after the new bytes are written, and may refuse them. The old bytes are deleted
        last, when the new ones and their line are on the device.
        """
        with self._lock:
            name = self._manifest.free_name(kept.partition, kept.file, kept.position)
            size, digest = self._write_pieces(name, pieces or ())
            changed = replace(
                kept,
                size=size,
                reason=reason,
                parts=(KeptPart(file=name, at=0, size=size),) if size else (),
                # Zeros have no file that could be missing: a line with their hash and size 0 purges them.
                sha256=digest if size or kept.files else kept.sha256,
                inode=0,
                time_ms=self._clock(),
            )
            if check is not None:
                check(changed)
            since = takewhile(lambda line: line != kept, reversed(self._manifest.read()))
            if any(is_same_range(changed, line) and self._has_files(line) for line in since):
                self._disk.delete(self.path(name))  # left by a run that was killed here
            else:
                self._manifest.write(changed)
            for file in kept.files:
                self._disk.delete(self.path(file))
            self._disk.sync_directory(self.directory)

    def unknown_files(self, partition: str) -> list[str]:
        """Copies that the manifest does not list: a run was killed while the log still had these bytes.

        This includes a copy that is shorter than its line says; `entries` leaves it out.
        """
        with self._lock:
            known = {name for kept in self._manifest.read() if self._has_files(kept) for name in kept.files}
            start, short = f"{QUARANTINE_PREFIX}{partition}-", f"{QUARANTINE_PREFIX}{short_name(partition)}-"
            found = self._disk.list_directory(self.directory) if self._disk.exists(self.directory) else []
            return [
                entry.name
                for entry in found
                if entry.name.startswith((start, short)) and entry.name not in known
            ]

    def delete_unknown(self, name: str) -> None:
        """Delete a copy without a line."""
        self._disk.delete(self.path(name))
        self._disk.sync_directory(self.directory)

    def path_of(self, kept: ManifestEntry) -> str:
        """The first file that holds the kept bytes; if they were all zeros, the manifest."""
        return self.path(kept.files[0] if kept.files else QUARANTINE_MANIFEST)

    def path(self, name: str) -> str:
        """The path of a file in the quarantine."""
        return join_path(self.directory, name)

    def _copy(
        self, source: Path, position: int, parts: list[tuple[int, bool]], name: str, needed: int
    ) -> None:
        path = self.path(name)
        self._disk.delete(path)
        free = self._disk.free_size(self.directory)
        if free < needed:
            raise QuarantineFullError(self.directory, needed, free, self._advice)
        buffer = aligned_buffer(_CHUNK_SIZE)
        try:
            self._disk.create(path)
            for size, is_zero in parts:
                end = position + size
                while not is_zero and position < end:
                    view = buffer[: min(_CHUNK_SIZE, end - position)]
                    if self._disk.read_into(source, view, position) < len(view):
                        raise QuarantineError(
                            source, f"it became shorter than {end} bytes while it was copied."
                        )
                    self._disk.append(path, view)
                    position += len(view)
                position = end
            self._disk.sync(path)
        except DiskError as error:
            if error.errno not in FULL_DISK:
                raise
            self._disk.delete(path)
            raise QuarantineFullError(self.directory, needed, free, self._advice) from error
        self._disk.sync_directory(self.directory)

    def _write_pieces(self, name: str, pieces: Iterable[NDArray[np.uint8]]) -> tuple[int, str]:
        path, size, digest = self.path(name), 0, hashlib.sha256()
        self._disk.delete(path)
        for piece in pieces:
            self._disk.append(path, piece)
            digest.update(piece.data)
            size += len(piece)
        if size:
            self._disk.sync(path)
            self._disk.sync_directory(self.directory)
        return size, digest.hexdigest()

    def _still_kept(self, lines: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        gone, found = set(), []
        for kept in reversed(lines):
            place = (kept.directory, kept.partition, kept.file, kept.position, kept.sha256)
            if not kept.size:
                gone.add(place)
            if self._has_files(kept) and (kept.files or not kept.size or place not in gone):
                found.append(kept)
        return found[::-1]

    def _has_files(self, kept: ManifestEntry) -> bool:
        for part in kept.parts:
            if part.file is None:
                continue
            status = self._disk.status(self.path(part.file))
            if status is None or status.size < part.at + part.size:
                return False
        return True


def log_directory_of(partition_directory: Path) -> str:
    """The log directory of a partition, as the manifest names it."""
    return parent_path(absolute_path(partition_directory))
