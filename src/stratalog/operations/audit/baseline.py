"""What an audit has read, kept with its report, so that the next one reads only what is new.

For each segment without findings (notes do not count), it stores the byte up to which the segment was read,
the next offset there, and a checksum of the checksums so far. A later audit continues from that byte if the
file is still the same. Audited bytes are not read again, so newer damage in them is not found; the report
says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from stratalog.errors import UsageError
from stratalog.files.names import FileKind, segment_file_name
from stratalog.files.paths import join_path
from stratalog.operations.audit.kinds import Severity
from stratalog.operations.audit.segment_task import AuditedSegment, AuditTask
from stratalog.operations.audit.spots import Spot
from stratalog.segment.scan import ScanStop, SegmentScan


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedBytes:
    """One segment: `end` is the byte up to which it was read without a finding."""

    stamp: str
    end: int
    next_offset: int
    digest: int
    max_timestamp: int
    is_compacted: bool

    def continued(self, task: AuditTask) -> AuditTask:
        """The rest of the segment, as a task."""
        return replace(task, start_position=self.end, start_offset=self.next_offset, start_digest=self.digest)

    def as_audited(self, task: AuditTask) -> AuditedSegment:
        """The result for a segment in which nothing is new."""
        scan = SegmentScan(
            path=task.path,
            base_offset=task.base_offset,
            start_position=0,
            file_size=self.end,
            valid_size=self.end,
            stop=ScanStop.END,
            reason="",
            batches_count=0,
            next_offset=self.next_offset,
            max_timestamp=self.max_timestamp,
            offset_of_max_timestamp=self.next_offset - 1,
            offset_index=b"",
            time_index=b"",
            epoch_starts=(),
            producers=(),
            transactions=(),
        )
        return AuditedSegment(
            base_offset=task.base_offset,
            size=self.end,
            read_size=0,
            good_end=self.end,
            digest=self.digest,
            records_count=0,
            codecs=(),
            first_timestamp=-1,
            first_offset=None,
            last_offset=self.next_offset - 1,
            gaps=(),
            gaps_count=0,
            is_compacted=self.is_compacted,
            has_damage=False,
            scan=scan,
            aborted=None,
            spots=(),
        )


@dataclass(frozen=True, slots=True)
class Baseline:
    """The segments that an audit has read, by path."""

    segments: dict[str, AuditedBytes]

    @classmethod
    def of(cls, audited: Iterable[tuple[str, int, str, AuditedSegment]]) -> Self:
        """From tuples (partition's directory, base offset, stamp, result).

        Segments with findings are left out, unless these are only notes.
        """
        return cls(
            {
                join_path(directory, segment_file_name(base, FileKind.LOG)): AuditedBytes(
                    stamp=stamp,
                    end=found.good_end,
                    next_offset=found.last_offset + 1,
                    digest=found.digest,
                    max_timestamp=found.scan.max_timestamp,
                    is_compacted=found.is_compacted,
                )
                for directory, base, stamp, found in audited
                if not found.has_damage and not any(_is_serious(spot) for spot in found.spots)
            }
        )

    @classmethod
    def parse(cls, text: str | bytes, source: str) -> Self:
        """From the JSON of a report; UsageError if it is not one."""
        try:
            audited = json.loads(text)["audited"]
            return cls({path: AuditedBytes(**facts) for path, facts in audited.items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{source} is not the report of an audit: write one with `stratalog audit --json`."
            ) from error

    def find(self, task: AuditTask, stamp: str) -> AuditedBytes | None:
        """What is known about a segment; None if nothing, or if the file is another one or shorter now."""
        known = self.segments.get(task.path)
        return known if known is not None and known.stamp == stamp and known.end <= task.size else None

    def to_document(self) -> dict[str, object]:
        """As JSON values."""
        return {
            path: {name: getattr(facts, name) for name in AuditedBytes.__slots__}
            for path, facts in self.segments.items()
        }


def _is_serious(spot: Spot) -> bool:
    return spot.kind.rule.severity is not Severity.NOTE
