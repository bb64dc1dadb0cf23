"""Findings of a log's recovery sequence, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stratalog.files.names import FileKind, segment_file_name
from stratalog.log.recovery.facts import Finding, FindingKind, missing_snapshot
from stratalog.log.recovery.sequence import RecoverySequence, SegmentState
from stratalog.log.recovery.survey import Survey
from stratalog.segment.scan import ScanStop, SegmentScan


def damage_that_stays(states: Iterable[SegmentState], scans: Mapping[int, SegmentScan]) -> Iterator[Finding]:
    """Findings of damage in segments that count as flushed; `scans` are by base offset."""
    for state in states:
        scan = scans.get(state.base_offset)
        if scan is not None and state.is_protected and scan.stop is not ScanStop.END:
            position = scan.start_position + scan.valid_size
            yield Finding(
                kind=FindingKind.DAMAGE_BELOW_RECOVERY_POINT,
                file=segment_file_name(state.base_offset, FileKind.LOG),
                words=f"At byte {position}: {scan.reason}",
                consequence="This part of the log counts as flushed, so it is left as it is; readers stop "
                "at the damage. If the partition has other replicas, use one of them. If this is the last "
                "copy, `recover --all --salvage` removes the damage and keeps the rest.",
            )


def findings_of(sequence: RecoverySequence, survey: Survey) -> Iterator[Finding]:
    """Findings: contradictions, a log that ends before its start, no snapshot after a clean shutdown."""
    for offset in sequence.contradictions:
        yield Finding(
            kind=FindingKind.PRODUCER_STATE,
            file="",
            words=f"The batch at offset {offset} is not part of the transaction that its producer has open.",
            consequence="It stays. A broker that has to recover this log refuses to start because of it.",
        )
    if sequence.is_below_start:
        yield Finding(
            kind=FindingKind.BELOW_LOG_START,
            file="",
            words=f"No record is left from {survey.settings.log_start_offset} on, where the log starts: it "
            f"ends at {sequence.end_below_start}.",
            consequence="The log is emptied and starts again at that offset, as in a broker. If the start in "
            "log-start-offset-checkpoint is wrong, correct it and put the files back.",
        )
    is_clean = survey.settings.had_clean_shutdown
    is_told = survey.end_offset is not None  # the survey has found the end, and reported a missing snapshot
    if is_clean and not is_told and sequence.lacks_last_snapshot:
        yield missing_snapshot(sequence.log_end_offset)
