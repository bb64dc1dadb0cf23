"""What fills the disk, and when retention frees it: as tables, sentences and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stratalog.operations.disk_tree import DiskFolder, ncdu_document
from stratalog.operations.du_keys import KeyUsage
from stratalog.operations.estimate_report import key_text
from stratalog.operations.freeing import NOTHING_FREED, NextFreed, added
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, size_text, time_text

_MANY_DAYS = 3650


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """A row: a partition, or several things together.

    `disk_size` is the space that its files take on the disk, `size` their length. `log_size` is the size of
    its live .log files, as Kafka counts it; `waiting_size` is that of files that end in .deleted. `growth` is
    in bytes a day. `is_assumed`: settings are not known, and Kafka's defaults are used.
    """

    name: str
    topic: str
    directory: str
    disk_size: int
    size: int
    log_size: int
    waiting_size: int
    files_count: int
    partitions_count: int
    growth: int | None = None
    freed: NextFreed = NOTHING_FREED
    is_compacted: bool = False
    is_assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedDirectory:
    """A log directory, the room that is left on its file system, and its growth in bytes a day.

    The room is that of a broker, which does not run as root: `free_size` leaves out reserved blocks.
    """

    directory: str
    disk_size: int
    free_size: int
    growth: int | None
    device: int = 0

    @property
    def days_left(self) -> float | None:
        """For how many days the room is enough if nothing is deleted; None without growth."""
        return None if not self.growth else self.free_size / self.growth


@dataclass(frozen=True, slots=True, kw_only=True)
class DuReport(Report):
    """All rows, the largest first; `top` of them are shown, 0 for all. `errors` are (path, why)."""

    directories: tuple[UsedDirectory, ...]
    uses: tuple[DiskUse, ...]
    by: str
    now: int
    keys: tuple[KeyUsage, ...] = ()
    top: int = 0
    errors: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    trees: tuple[DiskFolder, ...] = ()

    @property
    def every_error(self) -> list[tuple[str, str]]:
        return [*self.errors, *(error for usage in self.keys for error in usage.errors)]

    @property
    def status(self) -> Status:
        return Status.FAILED if self.every_error else Status.FINE

    @property
    def verdict(self) -> str:
        totals, freed = self.totals(), added(use.freed for use in self.uses)
        # Directories on one file system share its room.
        free = sum({found.device: found.free_size for found in self.directories}.values())
        words = f"{size_text(totals['bytes_on_disk'])} on disk, {size_text(free)} free."
        words += f" Retention frees {size_text(freed.now_size)} now"
        if freed.next_ms is not None:
            words += f", then {size_text(freed.next_size)} at {time_text(freed.next_ms)}"
        words += "."
        if totals["bytes_growth_a_day"]:
            words += f" Growth: {size_text(totals['bytes_growth_a_day'])} a day."
        return words

    def tables(self) -> list[Table]:
        return [self._directories(), self._uses(), *(self._keys(usage) for usage in self.keys)]

    def words(self) -> list[str]:
        found = [f"{path}: {why}" for path, why in self.every_error]
        assumed = [use.name for use in self.uses if use.is_assumed]
        if assumed:
            names = ", ".join(assumed[:3]) + (", ..." if len(assumed) > 3 else "")
            found.append(
                "Times in brackets are by Kafka's defaults, because the settings of "
                f"{counted(len(assumed), self.by)} are not known ({names}): give --config."
            )
        return [*found, *self.notes]

    def totals(self) -> dict[str, int]:
        return {
            "directories": len(self.directories),
            "partitions": sum(use.partitions_count for use in self.uses),
            "files": sum(use.files_count for use in self.uses),
            "bytes_on_disk": sum(use.disk_size for use in self.uses),
            "bytes": sum(use.size for use in self.uses),
            "bytes_of_logs": sum(use.log_size for use in self.uses),
            "bytes_waiting": sum(use.waiting_size for use in self.uses),
            "bytes_freed_now": sum(use.freed.now_size for use in self.uses),
            "bytes_growth_a_day": sum(use.growth or 0 for use in self.uses),
        }

    def to_document(self) -> dict[str, object]:
        return {
            "now": self.now,
            "by": self.by,
            "directories": [asdict(found) | {"days_left": found.days_left} for found in self.directories],
            "uses": [_document(use) for use in self.uses],
            "keys": [_keys_document(usage) for usage in self.keys],
            "errors": [{"path": path, "error": why} for path, why in self.every_error],
            "notes": list(self.notes),
        }

    def to_ncdu(self) -> list[object]:
        """All files in the format of `ncdu -f`."""
        return ncdu_document(list(self.trees), self.now)

    def _directories(self) -> Table:
        return Table(
            title="Log directories",
            columns=["directory", ">on disk", ">free", ">growth a day", ">full in"],
            rows=[
                [
                    found.directory,
                    size_text(found.disk_size),
                    size_text(found.free_size),
                    _size(found.growth),
                    _days(found.days_left),
                ]
                for found in self.directories
            ],
        )

    def _uses(self) -> Table:
        shown = self.uses[: self.top] if self.top else self.uses
        rest = self.uses[len(shown) :]
        total = sum(use.disk_size for use in self.uses)
        rows = [_row(use, total) for use in shown]
        if rest:
            size = sum(use.disk_size for use in rest)
            rows.append([f"{len(rest)} more", size_text(size), _share(size, total), *[""] * 5])
        columns = [
            self.by,
            ">on disk",
            "=share",
            ">logs",
            ">growth a day",
            ">freed now",
            ">freed next",
            "when",
        ]
        return Table(title=f"By {self.by}", columns=columns, rows=rows)

    def _keys(self, usage: KeyUsage) -> Table:
        total = sum(count.bytes for count in usage.counts) + usage.without_key_size + usage.rest_size
        rows = [
            [
                key_text(count) or "(empty key)",
                str(count.versions),
                size_text(count.bytes),
                _share(count.bytes, total),
            ]
            for count in usage.counts
        ]
        without = str(usage.without_key_count)
        for name, count, size in (
            ("other keys", "", usage.rest_size),
            ("no key", without, usage.without_key_size),
        ):
            if size:
                rows.append([f"({name})", count, size_text(size), _share(size, total)])
        return Table(
            title=f"Key prefixes of {usage.topic}",
            columns=["prefix", ">records", ">size", "=share"],
            rows=rows,
        )


def _row(use: DiskUse, total: int) -> list[str]:
    freed = use.freed
    return [
        use.name,
        size_text(use.disk_size),
        _share(use.disk_size, total),
        size_text(use.log_size) if use.log_size or use.partitions_count else "-",
        _size(use.growth),
        size_text(freed.now_size) if freed.now_size else "-",
        size_text(freed.next_size) if freed.next_size else "-",
        _when(use),
    ]


def _when(use: DiskUse) -> str:
    freed = use.freed
    if freed.next_ms is not None:
        words = time_text(freed.next_ms)
    elif freed.next_growth is not None:
        words = f"when it has grown by {size_text(freed.next_growth)}"
    elif use.is_compacted:
        words = "by compaction: see `estimate`"
    else:
        return "-"
    return f"({words})" if use.is_assumed else words


def _days(days: float | None) -> str:
    if days is None:
        return "-"
    return f"{days:.0f} days" if days < _MANY_DAYS else "over 10 years"


def _share(size: int, total: int) -> str:
    return f"{100 * size / total:.1f} %" if total else "-"


def _size(size: int | None) -> str:
    return "-" if size is None else size_text(size)


def _document(use: DiskUse) -> dict[str, object]:
    return {
        "name": use.name,
        "topic": use.topic,
        "directory": use.directory,
        "bytes_on_disk": use.disk_size,
        "bytes": use.size,
        "log_bytes": use.log_size,
        "waiting_bytes": use.waiting_size,
        "files": use.files_count,
        "partitions": use.partitions_count,
        "growth_a_day_bytes": use.growth,
        "freed_now_bytes": use.freed.now_size,
        "freed_next_bytes": use.freed.next_size,
        "freed_next_ms": use.freed.next_ms,
        "freed_next_growth_bytes": use.freed.next_growth,
        "is_compacted": use.is_compacted,
        "is_assumed": use.is_assumed,
    }


def _keys_document(usage: KeyUsage) -> dict[str, object]:
    return {
        "topic": usage.topic,
        "prefixes": [
            {
                "prefix": key_text(count),
                "prefix_hex": count.key.hex(),
                "records": count.versions,
                "bytes": count.bytes,
                "missed_bytes": count.missed_bytes,
            }
            for count in usage.counts
        ],
        "other_keys_bytes": usage.rest_size,
        "without_key_bytes": usage.without_key_size,
        "without_key_records": usage.without_key_count,
    }
