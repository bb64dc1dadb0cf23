"""The manifest of a quarantine: a line of JSON for each range or file that was kept."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass

from stratalog.files.names import QUARANTINE_PREFIX
from stratalog.files.paths import is_name, is_path_text
from stratalog.limits import INT64_MAX

_LONGEST_NAME = 255  # bytes, on common file systems


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPart:
    """A piece of a kept range: bytes of a file in quarantine, or zeros, which have no file."""

    file: str | None
    at: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A line of the manifest: what was cut off, from where, why, and in which files it is kept.

    `directory` is the absolute path of the log directory: one quarantine may serve several, and their
    partitions may have the same names. `is_whole`: a whole file was moved here. `sha256` is that of the
    bytes, in hexadecimal; a file that was renamed has none, and is identified by its inode. `run` is the id
    of the recovery that has kept it (`directory/clean_state.py`).
    """

    directory: str
    partition: str
    file: str
    position: int
    size: int
    reason: str
    is_whole: bool
    parts: tuple[KeptPart, ...]
    sha256: str | None
    inode: int
    time_ms: int
    run: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files in quarantine that hold the bytes; none if they were all zeros."""
        return tuple(sorted({part.file for part in self.parts if part.file is not None}))


def is_same_range(kept: ManifestEntry, other: ManifestEntry) -> bool:
    """Whether two lines describe the same bytes of the same file."""
    one, two = (
        (each.directory, each.partition, each.file, each.position, each.size, each.sha256)
        for each in (kept, other)
    )
    return one == two


def format_line(kept: ManifestEntry) -> bytes:
    """The entry as a line of JSON."""
    fields = asdict(kept)
    if not kept.run:  # kept by something other than the recovery of a log directory
        del fields["run"]
    return json.dumps(fields).encode("ascii") + b"\n"


def parse_line(line: bytes) -> ManifestEntry | None:
    """The entry of a line; None if the line is torn, or not ours."""
    try:
        fields = json.loads(line.strip(b"\0"))
        parts = tuple(KeptPart(**part) for part in fields.pop("parts"))
        kept = ManifestEntry(**fields, parts=parts)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not _is_origin(kept) or not all(_is_sound(part) for part in parts):
        return None
    return kept if kept.sha256 is not None or len(kept.files) == 1 else None


def kept_parts(runs: list[tuple[int, bool]], name: str) -> tuple[KeptPart, ...]:
    parts, at = [], 0
    for size, is_zero in runs:
        parts.append(KeptPart(file=None if is_zero else name, at=0 if is_zero else at, size=size))
        at += 0 if is_zero else size
    return tuple(parts)


def _is_origin(kept: ManifestEntry) -> bool:
    """Whether the line names a possible origin of the bytes. A file name that contains a path would lead a
    restored file out of the folder that the user has named."""
    return (
        is_path_text(kept.directory)
        and is_name(kept.partition)
        and is_name(kept.file)
        and isinstance(kept.run, str)
        and all(map(_is_number, (kept.position, kept.size, kept.time_ms)))
    )


def _is_sound(part: KeptPart) -> bool:
    """Whether a part is valid. A file name that contains a path would lead out of the quarantine."""
    is_ours = part.file is None or (is_name(part.file) and part.file.startswith(QUARANTINE_PREFIX))
    return is_ours and _is_number(part.at) and _is_number(part.size)


def _is_number(found: object) -> bool:
    return isinstance(found, int) and 0 <= found <= INT64_MAX


def kept_name(partition: str, file: str, suffix: str) -> str:
    """The name in quarantine. If it would be too long, a hash replaces the partition."""
    name = f"{QUARANTINE_PREFIX}{partition}-{file}-{suffix}"
    if len(os.fsencode(name)) <= _LONGEST_NAME:
        return name
    return f"{QUARANTINE_PREFIX}{short_name(partition)}-{file}-{suffix}"


def short_name(partition: str) -> str:
    """The hash that replaces the partition in a name that is too long."""
    return hashlib.sha256(os.fsencode(partition)).hexdigest()[:32]
